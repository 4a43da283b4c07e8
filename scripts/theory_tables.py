"""Writes `docs/theory.md`: what can be proved about RTPO, with every number computed afresh.

Run as `python scripts/theory_tables.py [PATH]`; PATH is `docs/theory.md` unless given. The
numbers are exact expectations over every outcome of small worlds, so two runs give the same
page. How they are computed is in `tests/theory/measured.py`.
"""

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from string import Template

import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

measured = importlib.import_module("tests.theory.measured")
mdp = importlib.import_module("tests.theory.mdp")
plans = importlib.import_module("retrograde.rollouts.plans")
losses = importlib.import_module("retrograde.losses.policy")

TEMPLATE = ROOT / "scripts" / "theory.md.template"
WORDS = ((0,), (1, 0), (1, 1))
NOTHING = 1e-9


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(shown, line)) + " |" for line in lines)


def shown(value: object) -> str:
    """A cell: four decimals, and 0 for what is only rounding."""
    if isinstance(value, float):
        return "0" if abs(value) < NOTHING else f"{value:.4f}"
    return str(value)


def fork(turn: int, size: int, continuations: int = 0) -> object:
    """Siblings at a turn of the first tree."""
    return plans.Fork(0, turn - 1, size, continuations)


def factors() -> str:
    """N2: the factor of a phase's gradient."""
    rows = []
    for turn in range(3):
        s = measured.setting(mdp.random_world(3), turn)
        for size in (2, 3):
            g = measured.phase_gradients(s, turn, fork(turn, size))
            rows.append((turn, size, g.factor, (size - 1) / size, g.residue))
    return table(("turn", "siblings n", "factor", "(n - 1) / n", "residue"), rows)


def residues() -> str:
    """N2: which estimators point elsewhere than the exact gradient."""
    long = mdp.random_world(8, (3, 2, 3), noisy=False)
    lengths = measured.setting(long, 2, mdp.turn_tables(long.shape, WORDS))
    stops = mdp.random_world(13, (2, 2, 2), stops=True)
    s = measured.settled(stops)
    fixed = measured.settled(mdp.random_world(10, (2, 2, 2)))
    mean, loss = losses.Mean, losses.PolicyLoss
    siblings, unequal = "siblings", "actions of 1 and 2 tokens"
    rows = [
        (siblings, unequal, "sum", measured.phase_gradients(lengths, 2, fork(2, 2)).residue),
        (
            *(siblings, unequal, "turn"),
            measured.phase_gradients(lengths, 2, fork(2, 2), loss(mean=mean.TURN)).residue,
        ),
        (
            *(siblings, "the policy stops when it likes", "sum"),
            measured.phase_gradients(s, 1, fork(1, 2)).residue,
        ),
        ("group", "every rollout has two turns", "token", _flat(fixed, mean.TOKEN)),
        ("group", "the policy stops when it likes", "token", _flat(s, mean.TOKEN)),
        ("group", "the policy stops when it likes", "rollout", _flat(s, mean.ROLLOUT)),
    ]
    return table(("estimator", "world", "mean", "residue"), rows)


def _flat(s: object, mean: object) -> float:
    return measured.flat_gradients(s, 2, mean).residue


def contamination() -> str:
    """N2: what a group's mean adds to the advantage of every action in a state."""
    s = measured.settled(mdp.random_world(9))
    exact = mdp.values(s.world, s.policy.actions(s.now_D))
    advantage_KSA = exact.q_KSA - exact.v_KS.unsqueeze(-1)
    rows = []
    for size in (2, 3):
        excess_KSA = measured.group_advantage(s.now, size) - (size - 1) / size * advantage_KSA
        for state in range(2):
            value = float(exact.v_KS[1, state] - exact.total)
            rows.append((size, state, value, float(excess_KSA[1, state, 0])))
    head = ("group G", "state at turn 1", "V(S) - mean return", "added to every advantage")
    return table(head, rows)


def merging() -> str:
    """N2 and N3: what sharing continuations costs and brings."""
    s = measured.settled(mdp.random_world(21))
    rows = []
    for name, times in (("each its own", 0), ("shared", 1), ("shared", 3)):
        wanted = fork(0, 3, times)
        g = measured.phase_gradients(s, 0, wanted)
        count = measured.continued(s, 0, wanted)
        error = measured.sibling_mse(s, 0, wanted)
        rows.append((name, times or 1, count, g.factor, g.residue, error))
    head = ("continuations", "each", "grown a boundary", "factor", "residue", "error of A")
    return table(head, rows)


def errors() -> str:
    """N3: mean square error of the advantage."""
    chances = torch.tensor([[0.6, 0.4], [0.7, 0.3]], dtype=torch.float64).log().flatten()
    worlds = (
        ("random", measured.settled(mdp.random_world(41, (2, 2, 2))), 1),
        ("guessing", measured.settled(measured.guessing_world(), chances), 0),
    )
    rows = []
    for name, s, turn in worlds:
        parts = measured.spread(s.world, s.policy, s.now_D, turn)
        rows += [
            (
                *(name, *parts, size),
                measured.group_mse(s.now, turn, size),
                measured.sibling_mse(s, turn, fork(turn, size - 1)),
                measured.sibling_mse(s, turn, fork(turn, size)),
            )
            for size in (3, 5)
        ]
    head = ("world", "s_V", "a2", "s_d", "G", "group of G", "G - 1 siblings", "G siblings")
    return table(head, rows)


def biases() -> str:
    """N4: bias of a sibling's value, by who continues it."""
    s = measured.setting(mdp.random_world(51), 0)
    now = mdp.values(s.world, s.policy.actions(s.now_D)).q_KSA[0]
    before = mdp.values(s.world, s.policy.actions(s.before_D)).q_KSA[0]
    found = (
        ("resampled by the policy of now", measured.continued_value(s, s.now, 0)),
        ("stale", measured.continued_value(s, s.before, 0)),
        ("stale, full weight", measured.reweighted_value(s, 0)),
        ("stale, weight kept within 0.8 and 1.2", measured.reweighted_value(s, 0, 0.8, 1.2)),
    )
    rows = [(name, float((value - now).abs().max())) for name, value in found]
    rows.append(("largest difference of the two values", float((before - now).abs().max())))
    return table(("continuation", "largest bias"), rows)


def variances() -> str:
    """N4: variance of a full weight."""
    rows = [(n, *measured.weight_variance(n, 1.0)) for n in (1, 2, 4, 8)]
    return table(("turns N", "variance of the weight", "(1 + delta)^N - 1"), rows)


def sweeps() -> str:
    """N5: what sweeps of exact greedy steps reach."""
    worlds = measured.many_worlds(1000)
    start, best = measured.some_policy(worlds), measured.best_value(worlds)
    twice = measured.all_at_once(worlds, measured.all_at_once(worlds, start))
    found = (
        ("none", start),
        ("one sweep, last turn first", measured.swept(worlds, start, (2, 1, 0))),
        ("one sweep, first turn first", measured.swept(worlds, start, (0, 1, 2))),
        ("one step at all turns at once", measured.all_at_once(worlds, start)),
        ("two of those", twice),
        ("three of those", measured.all_at_once(worlds, twice)),
    )
    rows = []
    for name, chosen in found:
        gap_M = best - measured.total_value(worlds, chosen)
        rows.append((name, f"{float((gap_M > NOTHING).double().mean()):.1%}", float(gap_M.mean())))
    return table(("greedy steps", "worlds left below the optimum", "mean gap"), rows)


def aliases() -> str:
    """N6: what can be reached under a context that hides the state."""
    rows = []
    for name, world, lean in (
        ("two rooms by chance", measured.blind_world(), 0.0),
        ("a detour, trunks go everywhere", measured.detour_world(), 0.0),
        ("a detour, trunks mostly miss it", measured.detour_world(), 2.0),
    ):
        policy = mdp.turn_tables(world.shape)
        tables = torch.zeros(policy.features_KSNLD.shape[:-1], dtype=torch.float64)
        tables[0, :, 0, 0] = lean
        trunk_KSA = policy.actions(tables.flatten())
        rows.append(
            (
                name,
                measured.recursive_value(world, trunk_KSA, blind=False),
                measured.best_blind_value(world),
                measured.recursive_value(world, trunk_KSA, blind=True),
            )
        )
    head = ("world", "state shown", "best with the state hidden", "one sweep with it hidden")
    return table(head, rows)


def silences() -> str:
    """N7: share of boundaries that teach nothing."""
    s = measured.settled(mdp.random_world(61))
    rows = [(n, *measured.silent_share(s, 2, n)) for n in (2, 3, 4, 8)]
    return table(("siblings n", "silent boundaries", "E[V^n + (1 - V)^n]"), rows)


def drifts() -> str:
    """N8: how far a phase moves each turn."""
    world = mdp.random_world(61)
    shape = world.shape
    rows = []
    for name, policy in (
        ("a table for each turn", mdp.turn_tables(shape)),
        ("one table for all", mdp.shared_table(shape)),
    ):
        rows += [(name, turn, *measured.moved(world, policy, turn)) for turn in (2, 1, 0)]
    return table(("weights", "phase of turn", "turn 0", "turn 1", "turn 2"), rows)


def costs() -> str:
    """Turns of a sweep."""
    rows = []
    for turns, size in ((3, 2), (6, 2), (3, 8), (6, 8)):
        generated, trained = measured.cost(turns, size)
        rows.append((turns, size, generated, trained, trained / generated))
    return table(("turns K", "siblings n", "generated", "trained", "share"), rows)


def page() -> str:
    """The whole page."""
    torch.set_num_threads(1)
    parts = (
        *(factors, residues, contamination, merging, errors, biases, variances),
        *(sweeps, aliases, silences, drifts, costs),
    )
    values = {part.__name__: part() for part in parts}
    values["three"] = f"{measured.shares_of_three(0.8961):.1%}"
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(values)


def main(arguments: list[str]) -> int:
    """Writes the page."""
    path = Path(arguments[0]) if arguments else ROOT / "docs" / "theory.md"
    path.write_text(page(), encoding="utf-8")
    print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Measures where the variance of returns comes from, turn by turn, and what follows from it.

Run as `python scripts/variance_shares.py [--environment NAME] [--environment.turns 8] ...`. Prints
a table and writes `benchmarks/results/variances-NAME.json`, options that were set in its name.

With S_k the state before turn k, u_k the answer there, R the return of the whole rollout,
V(S_k) = E[R | S_k] and A = E[R | S_k, u_k] - V(S_k), within the rollouts of one task:

    sigma_V2 = Var V(S_k)           drawn before the turn; a baseline taken at S_k removes it
    a2       = E[A^2]               the turn's own answer
    sigma_d2 = E Var(R | S_k, u_k)  drawn after the answer, the world's reply to it included

    Var R = sigma_V2 + a2 + sigma_d2 for every k that all rollouts reach.

Whole-rollout baselines spend a rollout of K turns on one sample for each turn; siblings get
their sample without sigma_V2, but at the price of trunk and continuation. For equal turns the
siblings' gradient has less noise if

    sigma_V2 / (sigma_d2 + a2) > (K + 1) / 2 + 1 / n - 1

with n siblings, each continued once, and without scaled advantages, merging or replay.

Estimators. A task has I trunks that reach turn k; at each S_k, J answers are drawn; each of them
is taken M times from that very state, with fresh chance in the world and fresh continuations.
R_ijm are nested random effects, q_ij their means over m and v_i over j and m; var divides by the
number of things less 1. Then, without bias whatever I, J and M,

    sigma_d2 = mean_ij var_m(R_ijm)
    a2       = mean_i var_j(q_ij) - sigma_d2 / M       as E var_j(q) = a2 + sigma_d2 / M
    sigma_V2 = var_i(v_i) - mean_i var_j(q_ij) / J     as E var_i(v) = sigma_V2 + E var_j(q) / J

pooled over tasks by what each adds: states for the first two, I - 1 for the last. Estimates may
fall below 0 and are shown as they are. Standard errors are a bootstrap over tasks, which are
independent. The line "all" has the means over turns, weighted by the states they were taken at.
"""

import argparse
import asyncio
import json
import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrograde.backends.models import load_model, model_directory
from retrograde.backends.sampler import TransformersPolicy
from retrograde.cli.settings import environment_settings, parse_environment
from retrograde.data.seeds import derived
from retrograde.data.tree import End, Group, Tree
from retrograde.environments.protocol import Environment
from retrograde.policies.protocol import Answer, Ids, Policy, Sampling
from retrograde.rendering.history import Renderer
from retrograde.rollouts.grow import Grower
from retrograde.rollouts.plans import NEW_TREE, ROOT_PARENT, Fork

Returns = NDArray[np.float64]
"""Of one task at one turn: trunks x answers x times taken."""
RESAMPLES = 500
"""Of the bootstrap."""
TASKS_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Size:
    """How much is drawn for each task."""

    trunks: int = 4
    """States at each turn."""
    answers: int = 4
    """Drawn at each state."""
    times: int = 2
    """How often each answer is taken."""

    def __post_init__(self) -> None:
        for entry in fields(self):
            if getattr(self, entry.name) < 2:  # noqa: PLR2004 - a variance needs two
                got = getattr(self, entry.name)
                raise ValueError(f"{entry.name}: at least 2 are needed for a variance, got {got}")


class Retaking:
    """A policy that can be told what to say next; after that it speaks for itself."""

    def __init__(self, policy: Policy) -> None:
        """Bind the policy."""
        self.policy = policy
        self.version = policy.version
        self.told: list[Answer] = []
        """Answers to the next contexts, all at once."""

    async def sample(self, contexts: Sequence[Ids], sampling: Sampling, seed: int) -> list[Answer]:
        """What it was told to say, if anything; otherwise what it would."""
        if not self.told:
            return await self.policy.sample(contexts, sampling, seed)
        told, self.told = self.told, []
        if len(told) != len(contexts):
            raise ValueError(f"told {len(told)} answers, and asked for {len(contexts)}")
        return told

    async def score(self, contexts: Sequence[Ids], actions: Sequence[Ids]) -> list[list[float]]:
        """What the policy says."""
        return await self.policy.score(contexts, actions)


async def measured(
    grower: Grower, tasks: Sequence[str], size: Size, seed: int
) -> list[dict[int, Returns]]:
    """The returns of each task, by turn.

    The grower's policy is a `Retaking`. Round 0 grows trunks, round 1 answers at each of their
    boundaries, and round 2 takes the same answers again from the same boundaries.

    Raises:
        RuntimeError: a rollout failed, which would leave a hole in the design.
    """
    retaking = grower.policy
    if not isinstance(retaking, Retaking):
        raise TypeError(f"policy: a Retaking is needed, got {type(retaking).__name__}")
    groups = [Group(task) for task in tasks]
    plant = [Fork(NEW_TREE, ROOT_PARENT, keep=True)] * size.trunks
    groups = await grower.grow(groups, [plant for _ in groups], 0, seed)
    places = [list(_boundaries(group)) for group in groups]
    forks = [[Fork(tree, at, size.answers) for tree, at, _ in here] for here in places]
    groups = await grower.grow(groups, forks, 1, seed)
    retaking.told = [
        Answer(turn.action, turn.logprobs, stopped=True)
        for group, here in zip(groups, places, strict=True)
        for tree, at, _ in here
        for turn in (group.trees[tree].turns[i] for i in _answers(group.trees[tree], at, 1))
        for _ in range(size.times - 1)
    ]
    again = size.answers * (size.times - 1)
    forks = [[Fork(tree, at, again) for tree, at, _ in here] for here in places]
    groups = await grower.grow(groups, forks, 2, seed)
    await grower.forget()
    return [_returns(group, here, size) for group, here in zip(groups, places, strict=True)]


def _boundaries(group: Group) -> Iterator[tuple[int, int, int]]:
    """Tree, turn behind which it lies, and turn index of every state on a trunk."""
    for i, tree in enumerate(group.trees):
        for turn, at in enumerate((ROOT_PARENT, *tree.trunk[:-1])):
            yield i, at, turn


def _answers(tree: Tree, at: int, grown_in: int) -> list[int]:
    """Turns that a round grew right behind one, in the order in which they were asked for."""
    behind = range(len(tree.turns)) if at == ROOT_PARENT else tree.children[at]
    return [i for i in behind if tree.turns[i].parent == at and tree.turns[i].grown_in == grown_in]


def _returns(
    group: Group, places: Sequence[tuple[int, int, int]], size: Size
) -> dict[int, Returns]:
    found: dict[int, list[Returns]] = {}
    for i, at, turn in places:
        tree = group.trees[i]
        first = [_return(tree, answer) for answer in _answers(tree, at, 1)]
        again = [_return(tree, answer) for answer in _answers(tree, at, 2)]
        shape = (size.answers, size.times - 1)
        cell = np.column_stack([np.array(first), np.array(again).reshape(shape)])
        found.setdefault(turn, []).append(cell)
    return {turn: np.stack(cells) for turn, cells in found.items()}


def _return(tree: Tree, turn: int) -> float:
    """Of the one rollout that goes on from a turn."""
    while tree.children[turn]:
        (turn,) = tree.children[turn]
    if tree.turns[turn].end is End.FAILED:
        raise RuntimeError("a rollout failed (the reason is in the log); nothing was measured")
    return tree.returns[turn]


@dataclass(frozen=True, slots=True)
class Shares:
    """Where the variance at one turn comes from."""

    sigma_V2: float
    sigma_d2: float
    a2: float

    @property
    def ratio(self) -> float:
        """What siblings remove, in units of what they leave; nan if they leave nothing."""
        left = self.sigma_d2 + self.a2
        return self.sigma_V2 / left if left else math.nan


def sums_of(returns: Returns) -> tuple[float, float, float, float, float]:
    """What one task adds to the pooled estimates of a turn, and with what weights.

    Returns:
        States; sums over states of mean_j var_m(R) and of var_j(q); I - 1; and that times the
        task's estimate of sigma_V2 (0 for a single state, which has no variance).
    """
    states, answers, _ = returns.shape
    after = float(returns.var(axis=2, ddof=1).mean(axis=1).sum())
    spread = float(returns.mean(axis=2).var(axis=1, ddof=1).sum())
    if states == 1:
        return 1.0, after, spread, 0.0, 0.0
    before = float(returns.mean(axis=(1, 2)).var(ddof=1)) - spread / states / answers
    return float(states), after, spread, states - 1.0, (states - 1) * before


def shares_of(sums: NDArray[np.float64], times: int) -> Shares:
    """The estimates from the sums over tasks of `sums_of`; nan for what too few states tell."""
    states, after, spread, degrees, before = (float(each) for each in sums)
    if not states:
        return Shares(math.nan, math.nan, math.nan)
    sigma_d2 = after / states
    sigma_V2 = before / degrees if degrees else math.nan
    return Shares(sigma_V2, sigma_d2, spread / states - sigma_d2 / times)


def over_turns(shares: Sequence[Shares], reached: Sequence[float]) -> Shares:
    """Means over the turns of a rollout, each turn weighted by how often it is reached."""

    def mean(name: str) -> float:
        return float(np.average([getattr(each, name) for each in shares], weights=reached))

    return Shares(mean("sigma_V2"), mean("sigma_d2"), mean("a2"))


def break_even(turns: int, siblings: int) -> float:
    """The ratio above which siblings pay, for rollouts of so many turns."""
    return (turns + 1) / 2 + 1 / siblings - 1


def estimates(
    found: Sequence[Mapping[int, Returns]], size: Size, seed: int
) -> list[dict[str, Any]]:
    """A record for each turn, and one for their mean, with standard errors.

    Args:
        found: the returns of each task, by turn.
        size: the design they were drawn by.
        seed: of the bootstrap.
    """
    turns = sorted({turn for each in found for turn in each})
    sums = np.zeros((len(turns), len(found), 5))
    for task, each in enumerate(found):
        for turn, returns in each.items():
            sums[turns.index(turn), task] = sums_of(returns)

    def table(weights: NDArray[np.float64]) -> list[Shares]:
        pooled = np.einsum("ktx,t->kx", sums, weights)
        each = [shares_of(line, size.times) for line in pooled]
        known = [i for i, line in enumerate(pooled) if line[3]]
        return [*each, over_turns([each[i] for i in known], [pooled[i][0] for i in known])]

    chance, tasks = np.random.default_rng(seed), len(found)
    drawn = [
        table(chance.multinomial(tasks, np.full(tasks, 1 / tasks)).astype(np.float64))
        for _ in range(RESAMPLES)
    ]
    records: list[dict[str, Any]] = []
    for line, best in enumerate(table(np.ones(tasks))):
        names = ("sigma_V2", "sigma_d2", "a2", "ratio")
        states = sums[line, :, 0].sum() if line < len(turns) else sums[:, :, 0].sum()
        records.append(
            {"turn": turns[line] if line < len(turns) else "all", "states": int(states)}
            | {name: getattr(best, name) for name in names}
            | {
                f"{name}_se": float(np.std([getattr(each[line], name) for each in drawn], ddof=1))
                for name in names
            }
        )
    return records


def printed(records: Sequence[Mapping[str, Any]], turns: int, siblings: int) -> str:
    """The table, with the break-even below it."""
    level = break_even(turns, siblings)
    head = ("turn", "states", "sigma_V2", "sigma_d2", "a2", "ratio", "pays")
    lines: list[tuple[str, ...]] = [head]
    for record in records:
        figures = [f"{record[n]:.4f} ±{record[f'{n}_se']:.4f}" for n in head[2:5]]
        ratio = f"{record['ratio']:.2f} ±{record['ratio_se']:.2f}"
        pays = "yes" if record["ratio"] > level else "no"
        lines.append((str(record["turn"]), str(record["states"]), *figures, ratio, pays))
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    rows = [
        "  ".join(cell.rjust(w) for cell, w in zip(line, widths, strict=True)) for line in lines
    ]
    return "\n".join(
        [*rows, f"siblings pay above a ratio of {level:.2f} (K = {turns}, n = {siblings})"]
    )


def main(arguments: Sequence[str]) -> int:
    """Measure, print, and write."""
    asked, rest = _parser().parse_known_args(arguments)
    environment = parse_environment(asked.environment, rest, "variance_shares.py")
    size = Size(asked.trunks, asked.answers, asked.times)
    source, recommended = model_directory(asked.model, environment, lambda *_: None)
    loaded = load_model(source, recommended)
    policy = Retaking(TransformersPolicy(loaded.model, loaded.chat.stop_ids))
    sampling = Sampling(1.0, environment.max_new_tokens * recommended.token_factor)
    grower = Grower(environment, Renderer(loaded.chat, environment.context), policy, sampling)
    found: list[dict[int, Returns]] = []
    start = time.monotonic()
    for first in range(0, asked.tasks, TASKS_AT_ONCE):
        numbers = range(first, min(first + TASKS_AT_ONCE, asked.tasks))
        tasks = [environment.task("train", i) for i in numbers]
        seed = derived(asked.seed, "variances", first)
        found += asyncio.run(measured(grower, tasks, size, seed))
    seconds = time.monotonic() - start
    records = estimates(found, size, asked.seed)
    turns = max(len(each) for each in found)
    print(f"{asked.environment} {environment_settings(environment)}, {asked.model}")
    print(printed(records, turns, asked.siblings))
    print(f"{grower.counts['turns']} turns in {seconds:.0f} s")
    result = {
        "environment": asked.environment,
        "environment_settings": environment_settings(environment),
        "model": asked.model,
        "seed": asked.seed,
        "tasks": asked.tasks,
        **asdict(size),
        "turns_generated": grower.counts["turns"],
        "K": turns,
        "siblings": asked.siblings,
        "break_even": break_even(turns, asked.siblings),
        "turns": [{name: _known(value) for name, value in each.items()} for each in records],
    }
    place = asked.out / f"variances-{_name(asked.environment, environment)}.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(result, indent=2, allow_nan=False) + "\n"
    place.write_text(text, encoding="utf-8")
    print(place)
    return 0


def _known(value: object) -> object:
    """JSON has no nan, which stands for what too few states have told."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _name(name: str, environment: Environment) -> str:
    """The environment's name, with the options that are not at their default."""
    usual = environment_settings(parse_environment(name, [], "variance_shares.py"))
    here = environment_settings(environment)
    return "-".join([name, *(f"{o}-{v}" for o, v in here.items() if v != usual[o])])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Where the variance of returns comes from, turn by turn. Options of the "
        "environment (--environment.turns 8) are taken too.",
        allow_abbrev=False,
    )
    parser.add_argument("--environment", default="hop", help="what is played")
    parser.add_argument("--model", default="embedded", help="as for retrograde train")
    parser.add_argument("--tasks", type=int, default=200, help="training tasks, from the first on")
    usual = Size()
    parser.add_argument("--trunks", type=int, default=usual.trunks, help="for each task")
    parser.add_argument("--answers", type=int, default=usual.answers, help="at each state")
    parser.add_argument("--times", type=int, default=usual.times, help="each answer is taken")
    parser.add_argument("--siblings", type=int, default=8, help="n in the break-even")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

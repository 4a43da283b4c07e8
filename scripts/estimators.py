"""Writes `docs/estimators.md`: what each algorithm's update is in expectation.

Run as `python scripts/estimators.py [PATH]`; PATH is `docs/estimators.md` unless given. Every
registered algorithm has a row, and some have more, with an option changed. The numbers are exact
where outcomes can be enumerated; elsewhere lots are drawn from a fixed seed, and their error is
stated. How they are computed is in `tests/theory/estimators.py`.
"""

import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from string import Template
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

estimators = importlib.import_module("tests.theory.estimators")
outcome = importlib.import_module("retrograde.credit.outcome")
policy = importlib.import_module("retrograde.losses.policy")
registry = importlib.import_module("retrograde.algorithms.registry")

TEMPLATE = ROOT / "scripts" / "estimators.md.template"
SMALLEST = 5e-5
ALONE, TASKS, INDEX = "plan alone", "tasks", "within an index"
"""Changes that are no option of a method: only its plan, with return - mean summed over tokens;
how many tasks an update has, of one and the same kind; and turns compared with those of their
index, by what is still to come or by rewards that are then added up."""
VARIANTS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "arpo": ({ALONE: True},),
    "grpo": ({"scale": False}, {"scale": False, "mean": "rollout"}, {"rollouts": 8}),
    "tree_grpo": ({ALONE: True},),
    "treepo": ({ALONE: True},),
    "rtpo": ({"mean": "sum"},),
    "reinforce": ({INDEX: "return"}, {INDEX: "rewards"}),
    "reinforce_pp": ({"baseline": "group"}, {TASKS: 4}),
    "gigpo": ({"norm": "mean", "gamma": 1.0},),
    "memopilot": ({"delay": 0},),
    "at2po": ({"once": True}, {"credit": "outcome"}, {ALONE: True}),
    "planpo": ({"group": "flat"},),
}
"""Options that show where a bias comes from."""

WHY: Mapping[str, str] = {
    "a2tgpo": "deviation, length; objective: the right answer's probability is a reward as well",
    "aepo": "deviation, length, plan; tokens weighed by entropy",
    "arpo": "deviation, length, plan",
    "at2po": "deviation, length, plan; a turn's value weighs its children by entropy",
    "atpo": "deviation, length",
    "cispo": "deviation, length",
    "dapo": "deviation, length; leaving out groups that are all equal only changes the scale",
    "dr_grpo": "none: the two causes it was made without",
    "gigpo": "deviation, length, discount; an anchor may hold a later turn of the same rollout",
    "grpo": "deviation, length; without either it is exact",
    "grpo_flat": "deviation, length; flat histories hide nothing here, see N1 of the theory",
    "gspo": "deviation, length",
    "leap": "objective: a success in fewer tries; deviation, length",
    "memopilot": "objective: the next turn's reward, and no more; deviation, length",
    "patr": "deviation, length, plan",
    "planpo": "objective: successes, in few turns; deviation, length",
    "ppo": "whitening, which is deviation over an update, length",
    "random_tree": "deviation, length, plan",
    "reinforce": "none",
    "reinforce_pp": "whitening, which is deviation over an update, length; both fade in large ones",
    "rloo": "none",
    "rtpo": "length of an action; with `mean=sum` none",
    "rtpo_plus": "length; a mean over the rows of several phases, whose numbers vary",
    "seeupo": "deviation; a mean over the rollouts that have the turn",
    "stepo": "deviation, length",
    "tcpo": "objective: scores after turns; deviation, length",
    "tree_grpo": "deviation within a tree, length, plan",
    "treepo": "deviation over an update, length, plan",
    "treerl": "length, plan; values divided by the square root of their leaves",
    "turn_ppo": "whitening, which is deviation over an update, length, discount",
}
"""Where the bias comes from; the page says what the words mean."""

Variant = tuple[str, Mapping[str, Any], bool]
"""A method, its options, and whether its critic says 0 everywhere."""


def variants() -> Iterator[Variant]:
    """Every row of a table."""
    for name in registry.ALGORITHMS:
        method = estimators.small(name)
        yield name, {}, False
        if getattr(method, "critic", None) is not None:
            yield name, {}, True
        for options in VARIANTS.get(name, ()):
            yield name, options, False


def label(variant: Variant) -> str:
    """What a row is called."""
    name, options, blind = variant
    changed = [
        key if value is True and key == ALONE else f"{key}={value}"
        for key, value in options.items()
    ]
    critic = getattr(estimators.small(name), "critic", None) is not None
    said = [] if not critic else ["V = 0"] if blind else ["V exact"]
    notes = ", ".join([*changed, *said])
    return f"`{name}`" + (f", {notes}" if notes else "")


def trial(variant: Variant, setting: Any) -> Any:
    """A row's method in a world."""
    name, options, blind = variant
    method = estimators.small(
        name, **{k: v for k, v in options.items() if k not in (ALONE, TASKS, INDEX)}
    )
    if ALONE in options:
        loss = policy.PolicyLoss(mean=policy.Mean.ROLLOUT_SUM)
        method = replace(method, credit=outcome.Outcome("mean"), normalise=None, loss=loss)
    if INDEX in options:
        method = replace(method, credit=estimators.AtIndex(options[INDEX]))
    return estimators.Trial(method, setting, blind=blind, prompts=options.get(TASKS, 1))


def number(value: float, digits: int = 4) -> str:
    """A cell; 0 for what is only rounding."""
    return "0" if abs(value) < SMALLEST else f"{value:.{digits}f}"


def cells(found: Any) -> tuple[str, ...]:
    """The numbers of a row."""
    return (
        number(found.scale),
        number(found.cosine),
        number(found.bias),
        "exact" if found.runs is None else f"± {found.error:.4f}",
        number(found.noise),
        number(found.turns, 2),
    )


def line(*parts: str) -> str:
    """A line of a Markdown table."""
    return "| " + " | ".join(parts) + " |"


HEAD = ("method", "scale", "cosine", "bias", "error", "noise", "turns")


def table(setting: Any, biases: dict[tuple[str, str], str]) -> str:
    """The rows of a world; their biases are noted."""
    lines = [line(*HEAD), line(*["---"] * len(HEAD))]
    for variant in variants():
        found = estimators.estimated(trial(variant, setting))
        own = label(variant)
        shown = cells(found)
        biases[own, setting.name] = shown[2] if found.runs is None else f"{shown[2]} {shown[3]}"
        lines.append(line(own, *shown))
        print(setting.name, lines[-1], flush=True)
    return "\n".join(lines)


def summary(biases: Mapping[tuple[str, str], str], names: Sequence[str]) -> str:
    """The biases of all worlds side by side."""
    head = ("method", *names, "causes")
    rows = dict.fromkeys(own for own, _ in biases)
    lines = [line(*head), line(*["---"] * len(head))]
    for own in rows:
        why = WHY.get(own.split(",")[0].strip("`"), "not explained yet")
        said = "" if ", " in own and not own.endswith("V exact") else why
        lines.append(line(own, *(biases[own, name] for name in names), said))
    return "\n".join(lines)


def page() -> str:
    """The whole page."""
    torch.set_num_threads(1)
    biases: dict[tuple[str, str], str] = {}
    worlds = estimators.settings()
    values = {setting.name: table(setting, biases) for setting in worlds}
    values["summary"] = summary(biases, [setting.name for setting in worlds])
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(values)


def main(arguments: list[str]) -> int:
    """Writes the page."""
    path = Path(arguments[0]) if arguments else ROOT / "docs" / "estimators.md"
    path.write_text(page(), encoding="utf-8")
    print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

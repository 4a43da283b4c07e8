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
ALONE, TASKS = "plan alone", "tasks"
"""Changes that are no option of a method: only its plan, with return - mean summed over tokens;
and how many tasks an update has, of one and the same kind."""
VARIANTS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "arpo": ({ALONE: True},),
    "grpo": ({"scale": False}, {"scale": False, "mean": "rollout"}, {"rollouts": 8}),
    "tree_grpo": ({ALONE: True},),
    "treepo": ({ALONE: True},),
    "rtpo": ({"mean": "sum"},),
    "reinforce_pp": ({"baseline": "group"}, {TASKS: 4}),
    "gigpo": ({"norm": "mean", "gamma": 1.0},),
    "memopilot": ({"delay": 0},),
    "at2po": ({"once": True}, {"credit": "outcome"}, {ALONE: True}),
    "planpo": ({"group": "flat"},),
}
"""Options that show where a bias comes from."""

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
    method = estimators.small(name, **{k: v for k, v in options.items() if k not in (ALONE, TASKS)})
    if ALONE in options:
        loss = policy.PolicyLoss(mean=policy.Mean.ROLLOUT_SUM)
        method = replace(method, credit=outcome.Outcome("mean"), normalise=None, loss=loss)
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
    head = ("method", *names)
    rows = dict.fromkeys(own for own, _ in biases)
    lines = [line(*head), line(*["---"] * len(head))]
    lines += [line(own, *(biases[own, name] for name in names)) for own in rows]
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

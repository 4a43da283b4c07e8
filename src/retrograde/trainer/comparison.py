"""A comparison: what each run came to, the mean over seeds, and the distance to a baseline.

Records and numbers alone: nothing here runs anything, and no torch is needed to read a result.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from statistics import fmean
from typing import Any, Literal

import numpy as np

Kind = Literal["tokens", "turns", "seconds"]
BUDGETS: Mapping[Kind, str] = {
    "tokens": "max_tokens",
    "turns": "max_env_steps",
    "seconds": "max_seconds",
}
"""What a budget can be counted in, and the setting of a run that sets it."""
METRICS = (
    "final_success",
    "best_success",
    "auc",
    "tokens",
    "env_steps",
    "optimizer_steps",
    "training_seconds",
    "wall_seconds",
    "zero_advantage_share",
)
"""Figures of a run that are summed up over seeds."""
RESAMPLES = 10_000
RESAMPLING_SEED = 0
PERCENTILES = (2.5, 97.5)


@dataclass(frozen=True, slots=True)
class Point:
    """One evaluation on held-out tasks, and what had been used by then."""

    tokens: int
    turns: int
    seconds: float
    """Wall clock without evaluations and checkpoints: what a budget of seconds is held against."""
    success: float
    """At temperature 1."""
    success_greedy: float

    def used(self, kind: Kind) -> float:
        """What had been used of a budget of that kind."""
        return {"tokens": self.tokens, "turns": self.turns, "seconds": self.seconds}[kind]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run came to; the figures of a run that failed are None."""

    seed: int
    status: Literal["finished", "failed"]
    curve: tuple[Point, ...] = ()
    final_success: float | None = None
    """At temperature 1, after the last update."""
    best_success: float | None = None
    """The highest of all evaluations. A maximum of noisy figures: it flatters."""
    auc: float | None = None
    """Mean height of the curve over the budget; 1 for a run that always succeeds."""
    tokens: int | None = None
    env_steps: int | None = None
    optimizer_steps: int | None = None
    training_seconds: float | None = None
    """Wall clock without evaluations and checkpoints: what a budget of seconds is held against."""
    wall_seconds: float | None = None
    """Wall clock with evaluations."""
    zero_advantage_share: float | None = None
    """None if no update had anything to learn from."""
    error: str | None = None
    """Why the run failed."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A run that was made to choose a learning rate, and is no part of the comparison."""

    learning_rate: float
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over seeds with its 95 % bootstrap interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Method:
    """One method of a comparison, with everything that was run for it so far."""

    label: str
    algorithm: str
    options: Mapping[str, str]
    learning_rate: float | None
    """None as long as it has not been chosen."""
    tuning: tuple[Trial, ...] = ()
    runs: tuple[Outcome, ...] = ()

    def having(self, outcome: Outcome) -> "Method":
        """The method with one run more, or another outcome of one that it has; by seed."""
        kept = [run for run in self.runs if run.seed != outcome.seed]
        return replace(self, runs=tuple(sorted([*kept, outcome], key=lambda run: run.seed)))

    def tried(self, trial: Trial) -> "Method":
        """The method with one trial more, or another outcome of one that it has."""

        def which(other: Trial) -> tuple[float, int]:
            return other.learning_rate, other.outcome.seed

        kept = [other for other in self.tuning if which(other) != which(trial)]
        return replace(self, tuning=tuple(sorted([*kept, trial], key=which)))


def outcome_of(
    seed: int, lines: Sequence[Mapping[str, float]], kind: Kind, budget: float
) -> Outcome:
    """What a finished run came to.

    Args:
        seed: the run's.
        lines: its `metrics.jsonl`.
        kind: what the budget is counted in.
        budget: how much of it there was; a run uses at most one iteration more.

    Raises:
        ValueError: the lines do not end with an evaluation, so that no final success is known.
    """
    curve = curve_of(lines)
    if not curve or "eval/success" not in lines[-1]:
        raise ValueError("the metrics of the run do not end with an evaluation")
    last = lines[-1]
    return Outcome(
        seed,
        "finished",
        curve,
        final_success=curve[-1].success,
        best_success=max(point.success for point in curve),
        auc=area(curve, kind, budget),
        tokens=int(last["tokens/generated"]),
        env_steps=int(last["env/steps"]),
        optimizer_steps=int(sum(line.get("update/steps", 0) for line in lines)),
        training_seconds=curve[-1].seconds,
        wall_seconds=last["wall_seconds"],
        zero_advantage_share=zero_advantage_share(lines),
    )


def curve_of(lines: Iterable[Mapping[str, float]]) -> tuple[Point, ...]:
    """The evaluations of a run, in order."""
    return tuple(
        Point(
            int(line["tokens/generated"]),
            int(line["env/steps"]),
            line["training_seconds"],
            line["eval/success"],
            line["eval/success_greedy"],
        )
        for line in lines
        if "eval/success" in line
    )


def area(curve: Sequence[Point], kind: Kind, budget: float) -> float:
    """Area under success against budget used, over the whole budget, divided by the budget.

    Between evaluations the curve is straight. It is cut at the budget, so that what a last
    iteration used beyond it earns nothing; where it ends before, its last value goes on.
    """
    used = [0.0, *(point.used(kind) for point in curve), max(budget, curve[-1].used(kind))]
    success = [curve[0].success, *(point.success for point in curve), curve[-1].success]
    end = float(np.interp(budget, used, success))
    inside = [(x, y) for x, y in zip(used, success, strict=True) if x < budget]
    parts = pairwise([*inside, (budget, end)])
    return sum((x1 - x0) * (y0 + y1) / 2 for (x0, y0), (x1, y1) in parts) / budget


def zero_advantage_share(lines: Iterable[Mapping[str, float]]) -> float | None:
    """Share of the turns in updates whose advantage was 0, from which nothing is learned.

    An iteration's line holds the mean over its minibatches. These means are weighted by the rows
    of an iteration: the mean size of its minibatches times its optimizer steps. Within an
    iteration minibatches of unequal size count the same, and an update that was skipped, since it
    had next to no signal, does not count.
    """
    weighed = [
        (line["rows"] * max(1.0, line.get("update/steps", 1.0)), line["rows/zero_advantage"])
        for line in lines
        if "rows/zero_advantage" in line
    ]
    rows = sum(weight for weight, _ in weighed)
    return sum(weight * share for weight, share in weighed) / rows if rows else None


def bootstrap(values: Sequence[float]) -> Interval:
    """Mean and 95 % percentile bootstrap interval, from the same draws each time.

    With one value there is nothing to draw from: the interval is that value. With few it is too
    narrow: it never leaves the range of what was seen.
    """
    mean = fmean(values)
    if len(values) == 1:
        return Interval(mean, mean, mean)
    drawn = np.random.default_rng(RESAMPLING_SEED).integers(
        0, len(values), (RESAMPLES, len(values))
    )
    means = np.asarray(values, dtype=np.float64)[drawn].mean(axis=1)
    low, high = (float(bound) for bound in np.percentile(means, PERCENTILES))
    return Interval(mean, low, high)


def figures(runs: Iterable[Outcome], metric: str) -> dict[int, float]:
    """A metric of the runs that have it, by seed."""
    found: dict[int, float | None] = {run.seed: getattr(run, metric) for run in runs}
    return {seed: float(value) for seed, value in found.items() if value is not None}


def summary(runs: Sequence[Outcome]) -> dict[str, Interval | None]:
    """Each metric over the seeds whose runs finished; None if there are none."""
    found = {metric: list(figures(runs, metric).values()) for metric in METRICS}
    return {metric: bootstrap(values) if values else None for metric, values in found.items()}


def differences(runs: Sequence[Outcome], baseline: Sequence[Outcome]) -> dict[str, Interval | None]:
    """Each metric minus the baseline's, seed by seed, over the seeds that both finished."""
    paired: dict[str, Interval | None] = {}
    for metric in METRICS:
        mine, theirs = figures(runs, metric), figures(baseline, metric)
        both = [mine[seed] - theirs[seed] for seed in sorted(mine.keys() & theirs.keys())]
        paired[metric] = bootstrap(both) if both else None
    return paired


def chosen_rate(trials: Sequence[Trial]) -> float:
    """The learning rate with the highest final success, mean over seeds.

    Of equals the one with the larger area under the curve, then the smallest. A rate at which a
    run failed is out.

    Raises:
        ValueError: a run failed at every rate.
    """
    by_rate: dict[float, list[Outcome]] = {}
    for trial in trials:
        by_rate.setdefault(trial.learning_rate, []).append(trial.outcome)
    whole = {
        rate: runs
        for rate, runs in sorted(by_rate.items())
        if all(run.status == "finished" for run in runs)
    }
    if not whole:
        tried = ", ".join(f"{rate:g}" for rate in sorted(by_rate))
        raise ValueError(f"a run failed at every learning rate that was tried ({tried})")

    def merit(rate: float) -> tuple[float, float]:
        return (
            fmean(figures(whole[rate], "final_success").values()),
            fmean(figures(whole[rate], "auc").values()),
        )

    return max(whole, key=merit)


def comparison_record(
    settings: Mapping[str, Any],
    machine: Mapping[str, Any],
    methods: Sequence[Method],
    baseline: str,
) -> dict[str, Any]:
    """The object that `compare.json` holds."""
    (reference,) = [method for method in methods if method.label == baseline]
    return {
        "settings": dict(settings),
        "machine": dict(machine),
        "baseline": baseline,
        "methods": [
            {
                "label": method.label,
                "algorithm": method.algorithm,
                "options": dict(method.options),
                "learning_rate": method.learning_rate,
                "tuning": [
                    {"learning_rate": trial.learning_rate, **_plain(trial.outcome)}
                    for trial in method.tuning
                ],
                "runs": [_plain(run) for run in method.runs],
                "summary": _intervals(summary(method.runs)),
                "difference": None
                if method.label == baseline
                else _intervals(differences(method.runs, reference.runs)),
            }
            for method in methods
        ],
    }


def methods_of(record: Mapping[str, Any]) -> list[Method]:
    """The methods of a `compare.json`, as far as they have been run."""
    return [
        Method(
            entry["label"],
            entry["algorithm"],
            entry["options"],
            entry["learning_rate"],
            tuple(Trial(trial["learning_rate"], _outcome(trial)) for trial in entry["tuning"]),
            tuple(_outcome(run) for run in entry["runs"]),
        )
        for entry in record["methods"]
    ]


def _plain(outcome: Outcome) -> dict[str, Any]:
    return asdict(outcome) | {"curve": [asdict(point) for point in outcome.curve]}


def _outcome(entry: Mapping[str, Any]) -> Outcome:
    fields: dict[str, Any] = {k: v for k, v in entry.items() if k != "learning_rate"}
    fields["curve"] = tuple(Point(**point) for point in entry["curve"])
    return Outcome(**fields)


def _intervals(found: Mapping[str, Interval | None]) -> dict[str, Any]:
    return {metric: interval and asdict(interval) for metric, interval in found.items()}

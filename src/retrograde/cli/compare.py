"""`retrograde compare`: several methods, one budget, and what can be said about them."""

import json
import os
import platform
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console

from retrograde.backends.models import load_model, model_directory
from retrograde.cli.bars import Bars
from retrograde.cli.compare_page import check_can_draw, curves, page
from retrograde.cli.compare_table import printed
from retrograde.cli.contest import Contest, contest_from, named_out, without_budget
from retrograde.cli.job import Job, Processes, done_here
from retrograde.cli.notice import notice
from retrograde.cli.panel import Panel
from retrograde.cli.place import check_out
from retrograde.cli.settings import Settings
from retrograde.cli.train import claimed, resolved
from retrograde.report.page import report
from retrograde.trainer.comparison import (
    Method,
    Outcome,
    Trial,
    chosen_rate,
    comparison_record,
    methods_of,
)
from retrograde.trainer.manifest import commit, differing

RECORD = "compare.json"
ROLLOUTS = "rollouts.html"
MAY_CHANGE = ("arguments", "baseline", "jobs")
"""Settings that a resumed comparison may be given anew: they change no run."""


@dataclass
class Comparison:
    """A comparison as far as it has come."""

    contest: Contest
    settings: Mapping[str, Any]
    machine: Mapping[str, Any]
    lock: int
    methods: dict[str, Method] = field(default_factory=dict)
    """By label."""

    @property
    def record(self) -> dict[str, Any]:
        """What `compare.json` holds."""
        methods = list(self.methods.values())
        return comparison_record(self.settings, self.machine, methods, self.contest.baseline)

    def keep(self) -> None:
        """Write `compare.json`, whole or not at all."""
        unfinished = self.contest.out / f".{RECORD}.unfinished"
        unfinished.write_text(json.dumps(self.record, indent=1) + "\n")
        unfinished.rename(self.contest.out / RECORD)


def main(arguments: Sequence[str]) -> Callable[[], int]:
    """Check everything, make the warm start, and return the comparison itself.

    Raises:
        ValueError: bad input; nothing has been written.
    """
    contest, stored = _asked(arguments)
    check_can_draw()
    check_out(contest.out, resume=contest.resume)
    first = contest.trainings[0]
    with Panel("compare", first.run, quiet=contest.quiet) as panel:
        source, recommended = model_directory(
            first.model_name, first.environment, panel.progress, first.model
        )
        load_model(
            source, recommended, first.model
        )  # a model that cannot be loaded is refused here, once

    def resolve(settings: Settings) -> Settings:
        return resolved(without_budget(settings), recommended)

    settings = _plain(contest.settings(resolve))
    methods = [
        Method(
            spec.label,
            spec.algorithm,
            spec.options,
            None if contest.tuning else resolve(training).algorithm.update.learning_rate,
        )
        for spec, training in zip(contest.specs, contest.trainings, strict=True)
    ]
    if stored is not None:
        _check_resumed(stored["settings"], settings)
        methods = methods_of(stored)
    settings |= {
        "baseline": contest.baseline,
        "jobs": contest.jobs,  # runs beside each other take longer
        "arguments": list(contest.arguments),
    }
    lock = claimed(contest.out, resume=contest.resume)
    by_label = {method.label: method for method in methods}
    return partial(_compared, Comparison(contest, settings, machine(), lock, by_label))


def _asked(arguments: Sequence[str]) -> tuple[Contest, dict[str, Any] | None]:
    """What was asked for, and what is there already; a resumption repeats its own words first."""
    out = named_out(arguments) if "--resume" in arguments else None
    if out is None:
        return contest_from(arguments), None
    path = out / RECORD
    if not path.exists():
        raise ValueError(f"{out} holds no {RECORD}: there is no comparison to resume in it")
    try:
        stored = json.loads(path.read_text())
        words = stored["settings"]["arguments"]
    except (ValueError, KeyError, TypeError) as cause:
        raise ValueError(f"{path} is damaged: {cause!r}") from cause
    return contest_from([*words, *arguments]), stored


def _check_resumed(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    differ = differing(stored, wanted, "the comparison", MAY_CHANGE)
    if differ:
        raise ValueError(
            "a comparison is resumed with the settings it was started with (only --baseline and "
            "how it is shown or carried out may change):\n  " + "\n  ".join(differ)
        )


def _compared(comparison: Comparison) -> int:
    contest, out = comparison.contest, comparison.contest.out
    try:
        comparison.keep()
        chosen = all(method.learning_rate is not None for method in comparison.methods.values())
        total = len(contest.specs) * contest.seeds
        total += 0 if chosen else len(contest.jobs_to_tune())
        with Bars(total, quiet=contest.quiet) as bars:
            _tune(comparison, bars)
            _run(comparison, bars)
        record = comparison.record
        picture = curves(record)
        (out / "curves.svg").write_text(picture)
        (out / "compare.html").write_text(page(record, picture))
        runs = sorted(path.parent for path in (out / "runs").glob("*/*/manifest.json"))
        (out / ROLLOUTS).write_text(report(runs, notice))
    finally:
        os.close(comparison.lock)
    if contest.as_json:
        print(json.dumps(record))
    else:
        console = Console(file=sys.stdout)
        printed(record, console)
        console.print(f"page: {out / 'compare.html'}", soft_wrap=True, highlight=False)
        console.print(f"rollouts: {out / ROLLOUTS}", soft_wrap=True, highlight=False)
    everything = [
        outcome.status
        for method in comparison.methods.values()
        for outcome in (*method.runs, *(trial.outcome for trial in method.tuning))
    ]
    return 1 if "failed" in everything else 0


def _tune(comparison: Comparison, bars: Bars) -> None:
    """Choose each method's learning rate; a method for which none works fails as a whole."""
    contest, methods = comparison.contest, comparison.methods
    # What was chosen once stays: runs have been made with it.
    chosen = {label for label, method in methods.items() if method.learning_rate is not None}
    jobs = [(job, _trials(methods[job.label], job)) for job in contest.jobs_to_tune()]
    missing = _missing([entry for entry in jobs if entry[0].label not in chosen], bars)
    for job, outcome in _done(contest, missing, bars):
        trial = Trial(job.learning_rate or 0.0, outcome)
        methods[job.label] = methods[job.label].tried(trial)
        comparison.keep()
    for label, method in methods.items():
        if label in chosen:
            continue
        try:
            methods[label] = replace(method, learning_rate=chosen_rate(method.tuning))
        except ValueError as cause:
            for seed in range(contest.seeds):
                methods[label] = methods[label].having(Outcome(seed, "failed", error=str(cause)))
                bars.end(f"{label}, seed {seed}", f"failed: {cause}")
    comparison.keep()


def _trials(method: Method, job: Job) -> list[Outcome]:
    return [t.outcome for t in method.tuning if t.learning_rate == job.learning_rate]


def _run(comparison: Comparison, bars: Bars) -> None:
    contest, methods = comparison.contest, comparison.methods
    rates = {
        label: method.learning_rate if contest.tuning else None
        for label, method in methods.items()
        if method.learning_rate is not None
    }
    jobs = [(job, methods[job.label].runs) for job in contest.jobs_to_compare(rates)]
    for job, outcome in _done(contest, _missing(jobs, bars), bars):
        methods[job.label] = methods[job.label].having(outcome)
        comparison.keep()


def _missing(jobs: Sequence[tuple[Job, Sequence[Outcome]]], bars: Bars) -> list[Job]:
    """Jobs without a finished run among those there are; the others are shown as done."""
    left: list[Job] = []
    for job, runs in jobs:
        kept = [run for run in runs if run.seed == job.seed and run.status == "finished"]
        if kept:
            bars.end(job.name, f"{_told(kept[0])} (kept)")
        else:
            left.append(job)
    return left


def _done(contest: Contest, jobs: Sequence[Job], bars: Bars) -> Iterator[tuple[Job, Outcome]]:
    """Make the runs, one after the other or a few at once, and give each outcome as it comes."""
    if contest.jobs == 1:
        for job in jobs:
            outcome = done_here(job, bars.begin(job.name))
            bars.end(job.name, _told(outcome))
            yield job, outcome
        return
    processes = Processes()
    with ThreadPoolExecutor(contest.jobs) as pool:
        try:
            waiting = {
                pool.submit(lambda job: processes.done(job, bars.begin(job.name)), job): job
                for job in jobs
            }
            for future in as_completed(waiting):
                job, outcome = waiting[future], future.result()
                bars.end(job.name, _told(outcome))
                yield job, outcome
        finally:
            processes.stop()


def _told(outcome: Outcome) -> str:
    if outcome.status == "failed":
        return f"failed: {outcome.error}"
    return (
        f"success {outcome.final_success:.3f}, {outcome.tokens:,} tokens, "
        f"{outcome.env_steps:,} turns, {outcome.wall_seconds:.0f} s"
    )


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """As it will be read back."""
    return json.loads(json.dumps(settings))


def machine() -> dict[str, Any]:
    """What the runs were made on and with."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "torch": version("torch"),
        "retrograde": version("retrograde"),
        "commit": commit(),
    }


def _cpu() -> str:
    known = Path("/proc/cpuinfo")
    lines = known.read_text().splitlines() if known.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()

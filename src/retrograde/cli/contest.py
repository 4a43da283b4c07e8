"""What `retrograde compare` was asked for, from its words, checked before any work."""

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

from retrograde.cli.job import Job
from retrograde.cli.method import Spec, specs_of
from retrograde.cli.settings import Settings, environment_settings, parse_train
from retrograde.trainer.comparison import BUDGETS, Kind

PROG = "retrograde compare"
FIRST_TUNING_SEED = 1000
NOT_SHARED = {
    "algorithm": "name methods with --algorithms",
    "seed": "seeds are counted by --seeds",
    "steps": "the length of a run is --budget",
    **dict.fromkeys(BUDGETS.values(), "the length of a run is --budget with --budget-kind"),
}
"""Options of `retrograde train` that cannot be the same for every run, and what to say instead."""
NOT_REPEATED = ("--resume", "--json", "--quiet")
ABOUT = """\
Train several methods from one warm start to one budget, on the same tasks and seeds, and say what
came out: success, area under the curve and cost, with intervals over seeds, and the difference to
a baseline, seed by seed. Seed 0 of every method runs first, then seed 1.
"""
MORE = """\
A method is the name of an algorithm, with settings of its own after a colon, joined by +: those
that `retrograde train --algorithm NAME --help` lists under --algorithm; lr means learning-rate.
Any other option of `retrograde train` is the same for all: --environment.hops 5, --prompts 16, ...
--tune chooses on seeds (1000, 1001, ...) and held-out tasks that the comparison does not use.
DIR holds compare.json, compare.html, rollouts.html, and what each run left in runs/ and tuning/.
A run uses at most one iteration more than its budget. Exit code 1: one failed; --resume retries.

examples:
  retrograde compare --algorithms rtpo,grpo --environment hop --seeds 3 --budget 200000 --out runs/c
  retrograde compare --algorithms "rtpo,grpo,grpo:epochs=3+clip=0.3" --environment lake --seeds 3 \\
      --budget 40000 --budget-kind turns --tune lr=3e-4,1e-3 --jobs 2 --out runs/lake
  retrograde compare --resume --out runs/c
"""


TUNING_TASKS = 1_000_000
"""Learning rates are chosen on held-out tasks from this number on, which no comparison plays."""


@dataclass(frozen=True)
class Tuning:
    """A small search for a learning rate, the same for every method."""

    rates: tuple[float, ...]
    seeds: tuple[int, ...]
    budget: float


@dataclass(frozen=True)
class Contest:
    """Everything a comparison was asked for."""

    specs: tuple[Spec, ...]
    trainings: tuple[Settings, ...]
    """Each method as `retrograde train` understands it."""
    seeds: int
    kind: Kind
    budget: float
    baseline: str
    tuning: Tuning | None
    shared: tuple[str, ...]
    """Words for `retrograde train` that all runs have."""
    out: Path
    resume: bool
    quiet: bool
    as_json: bool
    jobs: int
    arguments: tuple[str, ...]
    """The words themselves, without those that are not repeated when it is resumed."""

    def settings(self, resolve: Callable[[Settings], Settings]) -> dict[str, Any]:
        """What the comparison is held to when it is resumed, as plain data.

        Args:
            resolve: takes what was left open from the model's recommendation.
        """
        first = resolve(self.trainings[0])
        apart = {"steps", "seed", *BUDGETS.values()}
        tuning = self.tuning and {
            "learning_rates": list(self.tuning.rates),
            "seeds": list(self.tuning.seeds),
            "budget": self.tuning.budget,
        }
        return {
            "algorithms": [spec.label for spec in self.specs],
            "environment": first.environment_name,
            "environment_settings": environment_settings(first.environment),
            "model": first.model_name,
            "model_settings": asdict(first.model),
            "seeds": self.seeds,
            "budget": self.budget,
            "budget_kind": self.kind,
            "tune": tuning or None,
            "run": {k: v for k, v in asdict(first.run).items() if k not in apart},
        }

    def jobs_to_tune(self) -> list[Job]:
        """The runs that choose learning rates; seed by seed, rate by rate, all methods in turn."""
        if self.tuning is None:
            return []
        return [
            self._job(spec, seed, rate, self.tuning.budget, tuning=True)
            for seed in self.tuning.seeds
            for rate in self.tuning.rates
            for spec in self.specs
        ]

    def jobs_to_compare(self, rates: dict[str, float | None]) -> list[Job]:
        """The comparison's runs: seed 0 of every method, then seed 1 of every method, ...

        Args:
            rates: the learning rate that was chosen for each method that takes part; None for
                one that has its own.
        """
        return [
            self._job(spec, seed, rates[spec.label], self.budget, tuning=False)
            for seed in range(self.seeds)
            for spec in self.specs
            if spec.label in rates
        ]

    def _job(
        self, spec: Spec, seed: int, rate: float | None, budget: float, *, tuning: bool
    ) -> Job:
        under = Path("tuning", spec.slug, f"lr-{rate:g}") if tuning else Path("runs", spec.slug)
        folder = self.out / under / f"seed-{seed}"
        words = [
            *(*spec.words(rate), *self.shared, "--seed", str(seed)),
            *(f"--{BUDGETS[self.kind].replace('_', '-')}", str(budget)),
            *("--out", str(folder), "--quiet"),
            *(("--eval-first", str(TUNING_TASKS)) if tuning else ()),
        ]
        return Job(
            spec.label, seed, self.kind, budget, folder, tuple(words), rate if tuning else None
        )


def contest_from(arguments: Sequence[str]) -> Contest:
    """Read the command line of `retrograde compare`.

    Raises:
        ValueError: something is missing, unknown, out of range or cannot be combined.
        SystemExit: an option is unknown or of the wrong type; the reason has been printed.
    """
    asked, rest = parser().parse_known_args(list(arguments))
    for name in ("algorithms", "seeds", "budget", "out"):
        if getattr(asked, name) is None:
            raise ValueError(f"--{name} is needed; `{PROG} --help` shows examples")
    _check_shared(rest)
    kind, seeds = cast("Kind", asked.budget_kind), asked.seeds
    if not 1 <= seeds <= FIRST_TUNING_SEED:
        raise ValueError(f"--seeds: 1 to {FIRST_TUNING_SEED} are needed, got {seeds}")
    budget = _budget("--budget", asked.budget, kind)
    if asked.jobs < 1:
        raise ValueError(f"--jobs: at least 1 is needed, got {asked.jobs}")
    if asked.jobs > 1 and kind == "seconds":
        raise ValueError(
            f"--jobs {asked.jobs}: runs beside each other take each other's time, so a budget of "
            "seconds needs --jobs 1"
        )
    specs = specs_of(asked.algorithms)
    labels = [spec.label for spec in specs]
    baseline = asked.baseline or ("grpo" if "grpo" in labels else labels[0])
    if baseline not in labels:
        raise ValueError(f"--baseline {baseline!r} is none of the methods: {', '.join(labels)}")
    shared = ("--environment", asked.environment, "--model", asked.model, *rest)
    return Contest(
        tuple(specs),
        tuple(_settings(spec, shared) for spec in specs),
        seeds,
        kind,
        budget,
        baseline,
        _tuning(asked, specs, budget),
        shared,
        asked.out,
        asked.resume,
        asked.quiet,
        asked.json,
        asked.jobs,
        tuple(word for word in arguments if word not in NOT_REPEATED),
    )


def _settings(spec: Spec, shared: Sequence[str]) -> Settings:
    """A method as `retrograde train` understands it; what is wrong names whose setting it is."""
    plain = ["--algorithm", spec.algorithm, *shared]
    if not spec.options:
        return parse_train(plain, PROG)
    parse_train(plain, PROG)  # what is wrong here is not the method's own
    try:
        return parse_train(
            [*spec.words(), *shared], f"retrograde train --algorithm {spec.algorithm}"
        )
    except ValueError as cause:
        raise ValueError(f"{spec.label}: {cause}") from cause
    except SystemExit:
        print(f"error: --algorithms: in {spec.label}", file=sys.stderr)
        raise


def named_out(arguments: Sequence[str]) -> Path | None:
    """What `--out` says, the other words left unread."""
    return parser().parse_known_args(list(arguments))[0].out


def without_budget(settings: Settings) -> Settings:
    """Settings that recommend no length, which is the comparison's business."""
    return replace(settings, run=replace(settings.run, steps=1))


def _check_shared(words: Sequence[str]) -> None:
    for word in words:
        name = word.partition("=")[0].removeprefix("--").replace("-", "_").partition(".")[0]
        if word.startswith("--") and name in NOT_SHARED:
            said = NOT_SHARED[name]
            if "." in word:
                setting = word.partition("=")[0].partition(".")[2]
                said = f"write a method's own settings after its name (grpo:{setting}=VALUE)"
            raise ValueError(f"{word}: {said}")


def _budget(option: str, text: str, kind: Kind) -> float:
    """A budget as a number; whole, unless it is of seconds."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        raise ValueError(f"{option}: a number is needed, got {text!r}") from None
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{option}: a number above 0 is needed, got {text}")
    if kind == "seconds":
        return value
    if not value.is_integer():
        raise ValueError(f"{option}: a whole number of {kind} is needed, got {text}")
    return int(value)


def _tuning(asked: argparse.Namespace, specs: Sequence[Spec], budget: float) -> Tuning | None:
    if asked.tune is None:
        for option, value in (("seeds", asked.tune_seeds), ("budget", asked.tune_budget)):
            if value is not None:
                raise ValueError(f"--tune-{option} means nothing without --tune")
        return None
    name, _, values = asked.tune.partition("=")
    if name.strip() not in ("lr", "learning-rate", "learning_rate"):
        raise ValueError(f"--tune: lr=RATE,RATE,... is needed, got {asked.tune!r}")
    try:
        rates = tuple(float(value) for value in values.split(","))
    except ValueError:
        raise ValueError(f"--tune: numbers are needed after lr=, got {values!r}") from None
    if not all(math.isfinite(rate) and rate > 0 for rate in rates):
        raise ValueError(f"--tune: learning rates above 0 are needed, got {values}")
    if len(set(rates)) < len(rates):
        raise ValueError(f"--tune: a learning rate is named twice in {values}")
    own = [spec.label for spec in specs if "learning-rate" in spec.options]
    if own:
        raise ValueError(
            f"--tune chooses learning rates, and {own[0]} names its own; leave one of them out"
        )
    seeds = 1 if asked.tune_seeds is None else asked.tune_seeds
    if seeds < 1:
        raise ValueError(f"--tune-seeds: at least 1 is needed, got {seeds}")
    kind = cast("Kind", asked.budget_kind)
    less = _budget("--tune-budget", asked.tune_budget, kind) if asked.tune_budget else budget
    return Tuning(rates, tuple(range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + seeds)), less)


def parser() -> argparse.ArgumentParser:
    """The command's options, those of the runs left out."""
    made = argparse.ArgumentParser(
        prog=PROG,
        description=ABOUT,
        epilog=MORE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = made.add_argument
    add("--algorithms", metavar="A,B,...", help="the methods, with commas between them")
    learnt = "what all of them learn (default: hop)"
    add("--environment", default="hop", metavar="NAME", help=learnt)
    add("--model", default="embedded", metavar="NAME", help="where all start (default: embedded)")
    add("--seeds", type=int, metavar="N", help="runs of each method, with seeds 0 to N - 1")
    add("--budget", metavar="B", help="how much each run may use")
    add(
        "--budget-kind",
        choices=tuple(BUDGETS),
        default="tokens",
        help="of what: generated tokens (default), turns, or seconds without evaluations",
    )
    add("--out", type=Path, metavar="DIR", help="where everything is kept")
    add("--baseline", metavar="LABEL", help="differences are to it (default: grpo, or the first)")
    add("--tune", metavar="lr=RATE,...", help="choose each method's learning rate among these")
    add("--tune-seeds", type=int, metavar="N", help="runs for each of them (default: 1)")
    add("--tune-budget", metavar="B", help="what each of these may use (default: --budget)")
    add("--jobs", type=int, default=1, metavar="N", help="runs at once, in processes of their own")
    add("--resume", action="store_true", help="go on with the comparison in DIR")
    add("--quiet", action="store_true", help="print the result only")
    add("--json", action="store_true", help="print compare.json and nothing else on stdout")
    return made

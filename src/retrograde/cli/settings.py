"""From words on the command line to an algorithm, an environment and a run.

The signature of an algorithm is its configuration, and so are the fields of an environment
and of a run: options, types, defaults and help are read from them.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from retrograde.algorithms.algorithm import Algorithm
from retrograde.algorithms.fit import obstacles
from retrograde.algorithms.options import written_out
from retrograde.algorithms.registry import ALGORITHMS, algorithm_named
from retrograde.backends.model_options import ModelOptions
from retrograde.cli.train_help import EXAMPLES, short_help
from retrograde.environments.description import described
from retrograde.environments.protocol import Environment
from retrograde.environments.registry import ENVIRONMENTS, check_installed, environment_named
from retrograde.loggers.registry import LOGGERS, loggers_named
from retrograde.rendering.context import shown_under
from retrograde.rewards.registry import REWARDS, rewards_named
from retrograde.rewards.weighted import Rewards
from retrograde.trainer.run import Run

RESUMING = ("--resume", "--resume-anyway")
"""Words that ask to go on with a run."""
NOT_REPEATED = (*RESUMING, "--quiet", "--json")
"""Words that are not repeated when a run is resumed."""


@dataclass(frozen=True)
class Settings:
    """Everything `retrograde train` was asked for."""

    algorithm_name: str
    environment_name: str
    model_name: str
    algorithm: Algorithm
    environment: Environment
    model: ModelOptions
    run: Run
    rewards: Rewards | None
    """What turns earn; None for what the environment gives."""
    out: Path
    resume: bool
    quiet: bool
    arguments: tuple[str, ...]
    """The words themselves, without those that say how a run is gone on with and shown."""
    resume_anyway: bool = False
    """Whether it is resumed although it is not the run that was started."""
    log: tuple[str, ...] = ()
    """Names of loggers that are told what `metrics.jsonl` is told."""
    as_json: bool = False

    @property
    def names(self) -> dict[str, str]:
        """The three names."""
        return {
            "algorithm": self.algorithm_name,
            "environment": self.environment_name,
            "model": self.model_name,
        }


def parse_train(arguments: Sequence[str], prog: str = "retrograde train") -> Settings:
    """Read the command line of `retrograde train`, or of another command that trains.

    Raises:
        ValueError: a name is unknown, or a value is out of range.
        SystemExit: an option is unknown or of the wrong type, and the reason has been printed; or
            help has.
    """
    names, rest = names_parser().parse_known_args(list(arguments))
    names.resume |= names.resume_anyway
    method = algorithm_named(names.algorithm)
    world = environment_named(names.environment)
    check_installed(names.environment)
    if {"-h", "--help"} & set(rest):
        chosen = {n: getattr(names, n) for n in ("algorithm", "environment", "model")}
        print(short_help(chosen, method, world))
        raise SystemExit(0)
    sections = make_dataclass(
        "Train",
        [
            ("run", Annotated[Run, tyro.conf.arg(name="")]),
            ("algorithm", Annotated[Any, tyro.conf.arg(constructor=written_out(method))]),
            ("environment", Annotated[Any, tyro.conf.arg(constructor=world)]),
            ("model", ModelOptions, ModelOptions()),
        ],
    )
    parsed = tyro.cli(
        sections,
        prog=prog,
        description=_description(names.algorithm, names.environment),
        args=["--help" if word == "--help-all" else word for word in rest],
    )
    shown_under(parsed.environment.context)
    usual = f"{names.environment}-{names.algorithm}-{parsed.run.seed}"
    return fitting(
        Settings(
            names.algorithm,
            names.environment,
            names.model,
            parsed.algorithm,
            parsed.environment,
            parsed.model,
            parsed.run,
            rewards_named(list(dict.fromkeys(names.reward))),
            names.out or usual_out(usual, resume=names.resume),
            names.resume,
            names.quiet,
            tuple(word for word in arguments if word not in NOT_REPEATED),
            names.resume_anyway,
            loggers_named(names.log),
            names.json,
        )
    )


def fitting(settings: Settings) -> Settings:
    """The same settings, if the algorithm can run on the environment.

    Raises:
        ValueError: it cannot; what is in the way, and which algorithms could.
    """
    hindered = obstacles(settings.algorithm, settings.environment, settings.rewards)
    if hindered:
        raise ValueError(
            f"{settings.algorithm_name} cannot run on the environment "
            f"{settings.environment_name}: {'; '.join(hindered)}. Methods that can: "
            f"{', '.join(_fitting(settings.environment, settings.rewards))}"
        )
    return settings


def named_out(arguments: Sequence[str]) -> Path | None:
    """What `--out` says, the other words left unread."""
    return names_parser().parse_known_args(list(arguments))[0].out


def names_parser() -> argparse.ArgumentParser:
    """The options that choose what the others belong to, and how a run is kept and shown."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, prog="retrograde train")
    parser.add_argument("--algorithm", default="rtpo")
    parser.add_argument("--environment", default="hop")
    parser.add_argument("--model", default="embedded")
    parser.add_argument("--reward", action="append", default=[])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--resume-anyway", action="store_true")
    parser.add_argument("--log", default="")
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("--json", action="store_true")
    return parser


def usual_out(name: str, *, resume: bool) -> Path:
    """The first directory of that name that is still free; to resume, the last one in use."""
    runs = Path("runs")
    used = [runs / name, *sorted(runs.glob(f"{name}-[0-9]*"), key=lambda p: (len(p.name), p.name))]
    used = [folder for folder in used if folder.is_dir() and any(folder.iterdir())]
    if resume:
        return used[-1] if used else runs / name
    return runs / f"{name}-{len(used) + 1}" if used else runs / name


def parse_environment(name: str, arguments: Sequence[str], prog: str) -> Environment:
    """Read `--environment.X` options alone."""
    world = environment_named(name)
    check_installed(name)
    section = make_dataclass(
        "Options", [("environment", Annotated[Any, tyro.conf.arg(constructor=world)])]
    )
    environment = tyro.cli(section, prog=prog, args=list(arguments)).environment
    shown_under(environment.context)
    return environment


def environment_settings(environment: Environment) -> dict[str, Any]:
    """What makes an environment what it is, as plain data."""
    return described(environment) or {}


def _fitting(environment: Environment, rewards: Rewards | None) -> list[str]:
    return [
        name for name, method in ALGORITHMS.items() if not obstacles(method(), environment, rewards)
    ]


def _description(algorithm: str, environment: str) -> str:
    method: Callable[..., Algorithm] = ALGORITHMS[algorithm]
    about = (method.__doc__ or "").strip().splitlines()[0]
    return (
        f"Train a model on an environment. These names choose what the options below belong to:\n"
        f"  --algorithm NAME    {', '.join(ALGORITHMS)} (now {algorithm}: {about})\n"
        f"  --environment NAME  {', '.join(ENVIRONMENTS)} (now {environment})\n"
        f"  --model NAME        embedded, smollm2-135m, gemma3-270m, a directory, a hub id\n"
        f"  --reward NAME       what turns earn, in place of the environment's own reward; as\n"
        f"                      often as you like, NAME=WEIGHT and NAME(option=value) as well:\n"
        f"                      {', '.join(REWARDS)}, FILE.py:NAME\n"
        f"  --out DIR           where the run is kept; a new directory in runs/ if left out\n"
        f"  --resume            go on with the run in DIR, from its last checkpoint\n"
        f"  --resume-anyway     the same with other settings, which are shown\n"
        f"  --log NAMES         besides metrics.jsonl, log to: {', '.join(LOGGERS)}\n"
        f"  --quiet             print the closing summary only\n"
        f"  --json              print one JSON object a line on stdout, and nothing else\n"
        f"  --help              the options that are used most\n\n{EXAMPLES}"
    )

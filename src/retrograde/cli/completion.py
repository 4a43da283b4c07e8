"""`retrograde completion SHELL`: a script that lets a shell complete the commands."""

import argparse
import inspect
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial
from importlib import import_module

import shtab

from retrograde.cli.folded import Folded

SHELLS = ("bash", "zsh", "fish")
PARSERS = {"compare": "retrograde.cli.contest"}
"""Where a command's parser is, if not in the command's own module."""
FOLDERS = ("--out", "checkpoint", "run", "folder", "directory")
"""Options and arguments that name a directory."""


def main(arguments: Sequence[str]) -> Callable[[], int]:
    """Read what is asked for, and return the printing of the script."""
    asked = parser().parse_args(list(arguments))
    return partial(_printed, asked.shell)


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    made = argparse.ArgumentParser(
        prog="retrograde completion",
        description="Print a script after which the shell completes commands, options and names.",
        epilog="examples:\n"
        '  eval "$(retrograde completion bash)"                        this shell; or put it into\n'
        "                                                              ~/.bashrc or ~/.zshrc\n"
        "  retrograde completion fish > ~/.config/fish/completions/retrograde.fish",
        formatter_class=Folded,
        allow_abbrev=False,
    )
    made.add_argument("shell", choices=SHELLS, help="one of these")
    return made


def _printed(shell: str) -> int:
    print(shtab.complete(whole(), shell=shell))
    return 0


def whole() -> argparse.ArgumentParser:
    """A parser of all commands; it is there to be completed, not to parse."""
    from retrograde.cli.main import COMMANDS

    made = argparse.ArgumentParser(prog="retrograde", allow_abbrev=False)
    made.add_argument("--version", action="store_true", help="print the version")
    commands = made.add_subparsers(dest="command")
    for name, (module, about) in COMMANDS.items():
        read_in = import_module(PARSERS.get(name, module))
        own = train_parser() if name == "train" else read_in.parser()
        child = commands.add_parser(
            name, parents=[own], add_help=False, help=about, conflict_handler="resolve"
        )
        _name_what_is_known(child)
    return made


def train_parser() -> argparse.ArgumentParser:
    """The options of `retrograde train`, those of every algorithm and environment among them."""
    from retrograde.algorithms.options import options_of
    from retrograde.algorithms.registry import ALGORITHMS
    from retrograde.backends.model_options import Lora, ModelOptions
    from retrograde.cli.settings import names_parser
    from retrograde.environments.registry import ENVIRONMENTS
    from retrograde.trainer.run import Run

    made = argparse.ArgumentParser(prog="retrograde train", parents=[names_parser()])
    made.add_argument("--help-all", action="store_true", help="every option, in full")
    for field in fields(Run):
        _add(made, f"--{field.name}", field.default)
    for field in (*fields(ModelOptions), *fields(Lora)):
        inside = "--model.lora." if field in fields(Lora) else "--model."
        if field.name != "lora":
            _add(made, f"{inside}{field.name}", field.default)
    options = {n: d for method in ALGORITHMS.values() for n, d in options_of(method).items()}
    for name, default in sorted(options.items()):
        _add(made, f"--algorithm.{name}", default)
    own = {
        name: parameter.default
        for world in ENVIRONMENTS.values()
        for name, parameter in inspect.signature(world).parameters.items()
    }
    for name, default in sorted(own.items()):
        _add(made, f"--environment.{name}", default)
    return made


def _add(made: argparse.ArgumentParser, name: str, default: object) -> None:
    dashed = name.replace("_", "-")
    if isinstance(default, bool):
        cut = dashed.rindex(".") + 1 if "." in dashed else len("--")
        made.add_argument(dashed, f"{dashed[:cut]}no-{dashed[cut:]}", action="store_true")
    else:
        made.add_argument(dashed)


def _name_what_is_known(made: argparse.ArgumentParser) -> None:
    """Say of options what can be completed after them."""
    from retrograde.algorithms.registry import ALGORITHMS
    from retrograde.backends.models import MODELS
    from retrograde.environments.registry import ENVIRONMENTS
    from retrograde.rewards.registry import REWARDS

    known = {
        "--algorithm": ALGORITHMS,
        "--algorithms": ALGORITHMS,
        "--environment": ENVIRONMENTS,
        "--model": MODELS,
        "--reward": REWARDS,
    }
    for action in made._actions:  # noqa: SLF001 - argparse has no other way
        for name in (*action.option_strings, action.dest):
            if name in known:
                action.choices = list(known[name])
            elif name in FOLDERS:
                action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]

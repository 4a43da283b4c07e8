"""`retrograde list`: what can be named."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from retrograde.cli.folded import Folded


def main(arguments: Sequence[str]) -> Callable[[], int]:
    """Read what is asked for, and return the listing."""
    asked = parser().parse_args(list(arguments))
    return partial(_list, asked.what, as_json=asked.json)


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    made = argparse.ArgumentParser(
        prog="retrograde list",
        description="What --algorithm, --environment, --model and --reward can name.",
        epilog="example:\n  retrograde list algorithms",
        formatter_class=Folded,
        allow_abbrev=False,
    )
    kinds = ("algorithms", "environments", "models", "rewards")
    made.add_argument("what", choices=kinds, help="one of these")
    made.add_argument("--json", action="store_true", help="print one JSON object, with options")
    return made


def _list(what: str, *, as_json: bool) -> int:
    found = _found(what)
    if as_json:
        print(json.dumps({what: _detailed(what, found)}))
        return 0
    table = Table()
    table.add_column("name", style="bold", no_wrap=True)
    table.add_column("what it is")
    for name, about in found.items():
        table.add_row(name, about + (_to_install(name) if what == "environments" else ""))
    Console(file=sys.stdout).print(table)
    return 0


def _found(what: str) -> dict[str, str]:
    # Imported here, since `retrograde list environments` needs no torch.
    if what == "environments":
        from retrograde.environments.registry import ENVIRONMENTS, TAKES

        return {
            name + (f":{TAKES[name].upper()}" if name in TAKES else ""): _first_line(kind)
            for name, kind in ENVIRONMENTS.items()
        }
    if what == "algorithms":
        from retrograde.algorithms.registry import ALGORITHMS

        return {name: _first_line(method) for name, method in ALGORITHMS.items()}
    if what == "rewards":
        from retrograde.rewards.registry import REWARDS

        return {name: shipped.about for name, shipped in REWARDS.items()}
    from retrograde.backends.models import MODELS

    return {name: about for name, (about, _) in MODELS.items()}


def _to_install(name: str) -> str:
    """What has to be installed before an environment can be used, if anything has to."""
    from retrograde.environments.extras import command, is_installed
    from retrograde.environments.registry import NEEDS

    modules, brings = NEEDS.get(name.partition(":")[0], ((), ""))
    if all(is_installed(module) for module in modules):
        return ""
    return f"\n[dim]not installed: {escape(command(brings))}[/dim]"


def _detailed(what: str, found: dict[str, str]) -> dict[str, Any]:
    """What there is; algorithms with the default of each option, as `--algorithm.NAME` takes it."""
    if what != "algorithms":
        return found
    from retrograde.algorithms.options import options_of
    from retrograde.algorithms.registry import ALGORITHMS

    return {
        name: {
            "about": about,
            "needs": [*(["forks"] if method().grow.forks else []), *method().needs],
            "options": {o.replace("_", "-"): d for o, d in options_of(method).items()},
        }
        for name, about in found.items()
        for method in [ALGORITHMS[name]]
    }


def _first_line(documented: object) -> str:
    return (documented.__doc__ or "").strip().splitlines()[0]

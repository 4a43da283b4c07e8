"""`retrograde doctor --environment X`: whether an environment keeps its contract."""

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from retrograde.cli.settings import parse_environment
from retrograde.environments.conformance import TASKS, Report, Verdict, check
from retrograde.environments.protocol import Environment
from retrograde.environments.threaded import Threaded

PROG = "retrograde doctor --environment"
COLOURS = {
    Verdict.KEPT: "green",
    Verdict.BROKEN: "bold red",
    Verdict.NOT_APPLICABLE: "dim",
    Verdict.NOT_CHECKED: "yellow",
}


def check_environment(name: str, arguments: Sequence[str]) -> Callable[[], int]:
    """Read what is asked for, and return the check.

    Args:
        name: of the environment, as `--environment` takes it.
        arguments: the rest of the command line: `--environment.X` options, and those below.

    Returns:
        What looks at every rule and prints what was found; its value is the exit code, 1 if a
        rule is broken.

    Raises:
        ValueError: there is no such environment, or an option is out of range.
    """
    parser = argparse.ArgumentParser(prog=f"{PROG} {name}", allow_abbrev=False, add_help=False)
    parser.add_argument("--tasks", type=int, default=TASKS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threaded", action="store_true")
    parser.add_argument("--json", action="store_true")
    asked, rest = parser.parse_known_args(list(arguments))
    if asked.tasks < 1:
        raise ValueError(f"--tasks: at least 1 is needed, got {asked.tasks}")
    environment = parse_environment(name, rest, f"{PROG} {name}")
    return partial(_checked, environment, asked)


def _checked(environment: Environment, asked: argparse.Namespace) -> int:
    world = Threaded(environment) if asked.threaded else environment
    report = asyncio.run(check(world, tasks=asked.tasks, seed=asked.seed))
    if asked.json:
        print(json.dumps(report.plain()))
    else:
        _show(report)
    return 1 if report.broken else 0


def _show(report: Report) -> None:
    table = Table(title=f"the contract of {report.environment}", title_justify="left")
    table.add_column("rule", style="bold", no_wrap=True)
    table.add_column("found", no_wrap=True)
    table.add_column("what it says, and what was looked at")
    for finding in report.findings:
        colour = COLOURS[finding.verdict]
        found = f"[{colour}]{finding.verdict}[/{colour}]"
        detail = escape(finding.detail)
        table.add_row(finding.rule, found, f"{finding.about}\n[dim]{detail}[/dim]")
    console = Console(file=sys.stdout)
    console.print(table)
    kept = sum(finding.verdict is Verdict.KEPT for finding in report.findings)
    names = ", ".join(finding.rule for finding in report.broken)
    console.print(
        f"broken: {names}" if names else f"nothing is broken; {kept} rules were seen kept"
    )

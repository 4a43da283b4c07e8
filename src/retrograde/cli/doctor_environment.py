"""`retrograde doctor --environment X`: whether an environment keeps its contract."""

import argparse
import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from retrograde.cli.settings import parse_environment
from retrograde.data import report
from retrograde.environments import conformance
from retrograde.environments.conformance import TASKS
from retrograde.environments.protocol import Environment
from retrograde.environments.threaded import Threaded

PROG = "retrograde doctor --environment"
VERDICTS = {
    conformance.Verdict.KEPT: report.Verdict.PROVEN,
    conformance.Verdict.BROKEN: report.Verdict.FAILED,
    conformance.Verdict.NOT_APPLICABLE: report.Verdict.NOTE,
    conformance.Verdict.NOT_CHECKED: report.Verdict.NOTE,
}


def check(name: str, arguments: Sequence[str]) -> Callable[[], report.Report]:
    """Read what is asked for, and return the examination.

    Args:
        name: of the environment, as `--environment` takes it.
        arguments: the rest of the command line: `--environment.X` options, `--tasks N` (of each
            split, that are played), `--seed N` (of who plays), `--threaded` (it blocks).

    Raises:
        ValueError: there is no such environment, or an option is out of range.
    """
    parser = argparse.ArgumentParser(prog=f"{PROG} {name}", allow_abbrev=False, add_help=False)
    parser.add_argument("--tasks", type=int, default=TASKS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threaded", action="store_true")
    asked, rest = parser.parse_known_args(list(arguments))
    if asked.tasks < 1:
        raise ValueError(f"--tasks: at least 1 is needed, got {asked.tasks}")
    environment = parse_environment(name, rest, f"{PROG} {name}")
    return partial(_examined, Threaded(environment) if asked.threaded else environment, asked)


def _examined(environment: Environment, asked: argparse.Namespace) -> report.Report:
    found = asyncio.run(conformance.check(environment, tasks=asked.tasks, seed=asked.seed))
    facts = {
        "forking": str(environment.forking),
        "offers": ", ".join(sorted(environment.offers)) or "nothing",
        "turns": f"at most {environment.turn_limit}",
    }
    findings = tuple(
        report.Finding(each.rule, VERDICTS[each.verdict], _words(each)) for each in found.findings
    )
    return report.Report(f"environment {environment.name}", facts, findings)


def _words(finding: conformance.Finding) -> str:
    """What the rule says, and what was found."""
    if finding.verdict is conformance.Verdict.KEPT:
        return f"{finding.about}\nseen: {finding.detail}"
    return f"{finding.about}\n{finding.verdict}: {finding.detail}"

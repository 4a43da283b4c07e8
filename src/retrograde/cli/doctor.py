"""`retrograde doctor`: examine this machine, a model's rendering, or an environment."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial

from rich.console import Console
from rich.text import Text

from retrograde.cli.folded import Folded
from retrograde.data.report import Report, Verdict

STYLES = {Verdict.PROVEN: "green", Verdict.FAILED: "bold red", Verdict.NOTE: "yellow"}
WIDTH = 8


def main(arguments: Sequence[str]) -> Callable[[], int]:
    """Check what is asked for, and return the examination."""
    words = parser()
    asked, rest = words.parse_known_args(list(arguments))
    if rest and asked.environment is None:
        words.error(f"unrecognized arguments: {' '.join(rest)}")
    examinations: list[Callable[[], Report]] = []
    if asked.model is None and asked.environment is None:
        from retrograde.cli import doctor_machine  # not before: it loads torch

        examinations.append(doctor_machine.check())
    if asked.model is not None:
        from retrograde.cli.doctor_model import check  # not before: it loads torch

        examinations.append(check(asked.model))
    if asked.environment is not None:
        from retrograde.cli import doctor_environment

        examinations.append(doctor_environment.check(asked.environment, rest))
    return partial(_examined, examinations, as_json=asked.json)


def _examined(examinations: Sequence[Callable[[], Report]], *, as_json: bool) -> int:
    reports = [examine() for examine in examinations]
    proven = all(report.is_proven for report in reports)
    if as_json:
        print(json.dumps({"proven": proven, "reports": [report.to_json() for report in reports]}))
        return 0 if proven else 1
    console = Console(file=sys.stdout, soft_wrap=True, highlight=False)
    for report in reports:
        console.print(written(report))
    return 0 if proven else 1


def written(report: Report) -> Text:
    """A report as it is shown."""
    text = Text.assemble((f"{report.subject}\n", "bold"))
    for name, value in report.facts.items():
        lines = [value] if isinstance(value, str) else list(value)
        text.append("".join(f"  {name}: {line}\n" for line in lines))
    for finding in report.findings:
        text.append(f"  {finding.verdict:{WIDTH}}", STYLES[finding.verdict])
        first, *others = finding.text.splitlines()
        text.append(f"{finding.name}: {first}\n")
        text.append("".join(f"  {'':{WIDTH}}  {line}\n" for line in others))
    failed = sum(finding.verdict is Verdict.FAILED for finding in report.findings)
    verdict = Verdict.FAILED if failed else Verdict.PROVEN
    text.append(f"{report.subject}: ")
    text.append(f"not proven, {failed} failed" if failed else "proven", STYLES[verdict])
    return text


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    made = argparse.ArgumentParser(
        prog="retrograde doctor",
        description="Without --model and --environment: examine this machine and this "
        "installation: versions, devices, memory, disk, write rights, optional packages, and "
        "whether sampling and learning agree on log-probabilities. With --model: examine its "
        "tokenizer and chat template: whether chats put together turn by turn have the template's "
        "own token ids, whether every trained span ends in a stop id, whether text that looks like "
        "control tokens stays text. With --environment: examine whether it keeps its contract; its "
        "options (--environment.X) and --tasks N, --seed N, --threaded may follow. Green is "
        "proven, yellow is worth knowing, red is wrong, with the remedy. Exit code 0: nothing is "
        "wrong; 1: something is; 2: bad input.",
        epilog="examples:\n  retrograde doctor\n  retrograde doctor --model smollm2-135m\n"
        "  retrograde doctor --environment FILE.py:NAME --tasks 20",
        formatter_class=Folded,
        allow_abbrev=False,
    )
    made.add_argument("--model", metavar="M", help="a registered name, a directory, or a hub id")
    made.add_argument("--environment", metavar="E", help="a registered name, or FILE.py:NAME")
    made.add_argument("--json", action="store_true", help="print one JSON object")
    return made

"""`retrograde report`: runs as one page that opens from disk."""

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from retrograde.cli.folded import Folded
from retrograde.cli.notice import notice
from retrograde.report.page import report
from retrograde.report.recorded import manifest_of, runs_under


def main(arguments: Sequence[str]) -> Callable[[], int]:
    """Check what is asked for, and return the writing of it.

    Raises:
        ValueError: there is no run, or the manifest of one is damaged.
    """
    asked = parser().parse_args(list(arguments))
    runs = [run for folder in asked.folders for run in runs_under(Path(folder))]
    for run in runs:
        manifest_of(run)
    out = Path(asked.out) if asked.out else Path(asked.folders[0]) / "report.html"
    if not out.parent.is_dir():
        raise ValueError(f"--out: {out.parent} is no directory")
    return partial(_written, runs, out)


def _written(runs: Sequence[Path], out: Path) -> int:
    text = report(runs, notice)
    unfinished = out.with_name(f".{out.name}.unfinished")
    try:
        unfinished.write_text(text, encoding="utf-8")
        unfinished.rename(out)
    except OSError as error:
        print(f"error: {out} cannot be written: {error.strerror}", file=sys.stderr)
        return 1
    print(f"{out} ({out.stat().st_size / 1e6:.1f} MB); open it in a browser")
    return 0


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    made = argparse.ArgumentParser(
        prog="retrograde report",
        description="Write runs as one page: what was run, curves, held-out tasks that changed, "
        "and rollout trees. The page needs no network; long runs are sampled to stay below 5 MB.",
        epilog="example:\n  retrograde report runs/hop-rtpo-0",
        formatter_class=Folded,
        allow_abbrev=False,
    )
    made.add_argument(
        "folders",
        metavar="DIR",
        nargs="+",
        help="directory of a run, or of several (as `retrograde compare` leaves them)",
    )
    made.add_argument("--out", metavar="FILE", help="default: DIR/report.html")
    return made

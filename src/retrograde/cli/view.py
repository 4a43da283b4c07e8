"""`retrograde view`: the page of runs, served on this machine while they train."""

import argparse
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from retrograde.cli.folded import Folded
from retrograde.report.recorded import runs_under
from retrograde.report.server import Viewer

MOST_PORT = 65535


def main(arguments: Sequence[str]) -> Callable[[], int]:
    """Check what is asked for, and return the serving of it."""
    asked = parser().parse_args(list(arguments))
    if not 0 <= asked.port <= MOST_PORT:
        raise ValueError(f"--port: 0 to {MOST_PORT} is needed, got {asked.port}")
    runs = [run for folder in asked.folders for run in runs_under(Path(folder))]
    try:
        viewer = Viewer(runs, asked.port)
    except OSError as error:
        raise ValueError(f"--port: {asked.port} cannot be used: {error.strerror}") from error
    return partial(_served, viewer)


def _served(viewer: Viewer) -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    print(f"{viewer.address}\nCtrl-C ends it.", flush=True)
    with viewer:
        try:
            viewer.serve_forever()
        except KeyboardInterrupt:
            print("ended", file=sys.stderr)
    return 0


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    made = argparse.ArgumentParser(
        prog="retrograde view",
        description="Serve the page that `retrograde report` writes, kept up to date while runs "
        "train. It listens on this machine only, to whoever has the printed address, and only "
        "reads.",
        epilog="example:\n  retrograde view runs/hop-rtpo-0",
        formatter_class=Folded,
        allow_abbrev=False,
    )
    made.add_argument("folders", metavar="DIR", nargs="+", help="directory of a run, or several")
    made.add_argument("--port", type=int, default=0, help="default: any that is free")
    return made

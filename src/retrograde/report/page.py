"""Runs as one page that needs nothing else."""

import base64
import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from retrograde.data.stored import Told
from retrograde.report.flips import flipped
from retrograde.report.recorded import methods_of, recorded, untold
from retrograde.report.shelf import Shelf

MOST_BYTES = 4_900_000
"""Of a report."""
FLIPS = 400
"""Tasks of a run that the table names."""


def report(runs: Sequence[Path], told: Told = untold) -> str:
    """The page of some runs, with as many of their rollouts as there is room for.

    Args:
        runs: their directories.
        told: told of each file that is damaged, and what of it is left out.

    Raises:
        ValueError: a directory is no run's, or its manifest is damaged.
    """
    shelf = Shelf(runs, told)
    said = figures(runs, told)
    changed = [[(flip["greedy"], flip["task"]) for flip in run["flips"]] for run in said["runs"]]
    room = MOST_BYTES - len(page(said))
    entries, packed = shelf.sampled(room, changed)
    head = said | {"live": False, "groups": entries, "kept": shelf.count()}
    blocks = "\n".join(
        f'<script type="text/plain" id="group-{key}">{text}</script>'
        for key, text in packed.items()
    )
    return page(head, blocks)


def figures(runs: Sequence[Path], told: Told = untold) -> dict[str, Any]:
    """What the page says of runs, all but their rollouts."""
    found = [recorded(run, told) for run in runs]
    return {
        "version": version("retrograde"),
        "written": time.strftime("%Y-%m-%d %H:%M:%S %Z"),
        "runs": [
            {
                "summary": run.summary(method),
                "curves": run.curves(),
                "flips": flipped(run.evaluations)[:FLIPS],
            }
            for run, method in zip(found, methods_of(found), strict=True)
        ],
    }


def page(head: Mapping[str, Any], blocks: str = "") -> str:
    """The page around data.

    What is said in a run is data only: it is inside JSON with no `<` in it, and the script puts it
    into text nodes. The page may run one script, this one, and speak to where it came from alone.
    """
    data = json.dumps(head, separators=(",", ":")).replace("<", "\\u003c")
    script, style = asset("app.js"), asset("app.css")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy()}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        '<meta name="color-scheme" content="light dark">\n'
        "<title>Retrograde</title>\n"
        f"<style>{style}</style>\n</head>\n<body>\n"
        '<div id="app"><noscript>This page needs JavaScript.</noscript></div>\n'
        f'<script type="application/json" id="head">{data}</script>\n'
        f"{blocks}\n<script>{script}</script>\n</body>\n</html>\n"
    )


def policy() -> str:
    """What the page may do, for a header or a meta element."""
    script, style = (_hash(asset(name)) for name in ("app.js", "app.css"))
    return (
        f"default-src 'none'; script-src '{script}'; style-src '{style}'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'"
    )


def asset(name: str) -> str:
    """A part of the page that `make ui` built."""
    return (files("retrograde") / "ui" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"

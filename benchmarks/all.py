"""Every benchmark, one after the other, and the page that is made of them.

    python -m benchmarks.all [--only NAME ...] [--quick]

Each runs in a process of its own and leaves `benchmarks/results/NAME.json`; `docs/performance.md`
is written from all that lie there, so that one of them can be run again on its own.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "speed"
PAGE = ROOT / "docs" / "performance.md"
INTRODUCTION = ROOT / "benchmarks" / "performance_page.md"
"""What the page says before the table, and what bounds each figure that was not reached."""
NAMES = (
    "tree_training", "tree_sampling", "roofline", "iteration", "rtpo_cost", "scaling", "memory",
)  # fmt: skip
HOURS = 2
"""After which a benchmark is given up."""


def run(name: str, words: list[str], console: Console) -> None:
    """One benchmark, into its file."""
    console.print(f"{name} ...")
    begun = time.monotonic()
    command = [sys.executable, "-m", f"benchmarks.{name}", "--json", *words]
    done = subprocess.run(  # noqa: S603 - our own words
        command, cwd=ROOT, capture_output=True, text=True, timeout=3600 * HOURS, check=False
    )
    took = time.monotonic() - begun
    if done.returncode:
        console.print(f"{name} failed after {took:.0f} s:\n{done.stderr[-3000:]}", markup=False)
        return
    RESULTS.mkdir(parents=True, exist_ok=True)
    found = json.loads(done.stdout[done.stdout.index("{") :])
    (RESULTS / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
    console.print(f"{name}: {took:.0f} s")


def row(figure: dict[str, Any]) -> str:
    """One line of the table."""
    sign = "≥" if figure["at_least"] else "≤"
    asked = "" if figure["target"] is None else f"{sign} {figure['target']:.2f}"
    reached = {True: "yes", False: "**no**", None: ""}[figure["reached"]]
    spread = f"{figure['lowest']:.2f} to {figure['highest']:.2f}"
    cells = (
        figure["case"], figure["what"], f"{figure['ratio']:.2f}", spread, asked, reached,
        figure["note"],
    )  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def page() -> str:
    """All that was measured."""
    parts = [INTRODUCTION.read_text().rstrip(), ""]
    for name in NAMES:
        path = RESULTS / f"{name}.json"
        if not path.exists():
            parts += [f"## {name}", "", "Not run.", ""]
            continue
        found = json.loads(path.read_text())
        machine, versions = found["machine"], found["versions"]
        parts += [
            f"## {name}",
            "",
            f"`python -m benchmarks.{name}`, {found['date']}, {machine['cpu']}, {machine['cores']} "
            f"cores, {found['threads']} thread(s), "
            + ", ".join(f"{package} {number}" for package, number in versions.items()),
            "",
            "| case | ratio of | median | spread | asked | reached | |",
            "|---|---|---|---|---|---|---|",
            *map(row, found["figures"]),
            "",
        ]
    return "\n".join(parts).rstrip() + "\n"


def main() -> None:
    """Run what is asked for, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=NAMES, default=NAMES)
    parser.add_argument("--quick", action="store_true", help="the embedded policy alone")
    parser.add_argument("--repetitions", type=int, default=3)
    asked = parser.parse_args()
    words = ["--repetitions", str(asked.repetitions), *(["--quick"] if asked.quick else [])]
    for name in asked.only:
        run(name, words, Console())
    PAGE.write_text(page())
    Console().print(f"{PAGE} written")


if __name__ == "__main__":
    main()

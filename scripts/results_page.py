"""Writes `docs/results.md` from what `retrograde compare` left in `benchmarks/results/*/`.

Run as `python scripts/results_page.py`. Each folder with a `compare.json` becomes a section with
its table and its curves, which are copied beside the page. What people have to say about the
figures is in `results_commentary.md`, beside this script: what comes before its first `## ` heading
opens the page; a part whose heading is the name of a folder stands in the section of that folder;
other parts close the page.
"""

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

from retrograde.cli.compare_page import curves
from retrograde.cli.compare_table import LEGEND, markdown, title_of

INTRODUCTION = """\
Written by `scripts/results_page.py` from the records of `retrograde compare`, with the words of
`scripts/results_commentary.md` between them. All methods of a table start from the same weights,
play the same tasks, and stop in the iteration that uses the budget up."""


def comments_of(text: str) -> dict[str, str]:
    """The commentary by heading; what comes before the first one has the heading ``."""
    first, *parts = re.split(r"(?m)^## ", text)
    found = {"": first.strip()}
    for part in parts:
        heading, _, words = part.partition("\n")
        found[heading.strip()] = words.strip()
    return found


def section(name: str, record: dict[str, Any], picture: str, words: str) -> list[str]:
    """A comparison: what it was, its table, its curves, and what there is to say."""
    lines = [
        f"## {name}",
        "",
        _conditions(record),
        _tuning(record),
        "",
        *markdown(record),
        "",
        f"![Held-out success against the budget used, on {name}]({picture})",
        "",
        _machine(record["machine"]),
        "",
    ]
    return [*lines, words, ""] if words else lines


def _conditions(record: dict[str, Any]) -> str:
    settings = record["settings"]
    run, options = settings["run"], settings["environment_settings"]
    world = ", ".join(f"{name} {value}" for name, value in options.items())
    return (
        f"{title_of(record)}.{f' Environment: {world}.' if world else ''} "
        f"{run['eval_episodes']} held-out tasks an evaluation, {run['prompts']} tasks an iteration."
    )


def _machine(machine: dict[str, Any]) -> str:
    commit = f" at {machine['commit'][:10]}" if machine["commit"] else ""
    return (
        f"Machine: {machine['cpu']}, {machine['cores']} cores; Python {machine['python']}, "
        f"torch {machine['torch']}, retrograde {machine['retrograde']}{commit}."
    )


def _tuning(record: dict[str, Any]) -> str:
    tune = record["settings"]["tune"]
    if tune is None:
        return "Learning rates were not tuned for this comparison."
    rates = ", ".join(f"{rate:g}" for rate in tune["learning_rates"])
    trials = [trial for method in record["methods"] for trial in method["tuning"]]
    spent = sum(trial["tokens"] or 0 for trial in trials)
    return (
        f"The learning rate of each method is the best of {rates} on {len(tune['seeds'])} other "
        f"seed{'s' if len(tune['seeds']) > 1 else ''}; that took {len(trials)} more runs and "
        f"{spent:,} tokens, which the table does not count."
    )


def page(records: dict[str, dict[str, Any]], comments: dict[str, str], pictures: str) -> str:
    """The whole page.

    Args:
        records: each `compare.json`, by the name of its folder.
        comments: what `comments_of` gave.
        pictures: where the pictures are, seen from the page.
    """
    opening = [words for words in (INTRODUCTION, comments[""], LEGEND) if words]
    lines = ["# Results", "", *(line for words in opening for line in (words, ""))]
    for name, record in records.items():
        picture = f"{pictures}/{picture_name(name)}"
        lines += section(name, record, picture, comments.get(name, ""))
    for heading, words in comments.items():
        if heading and heading not in records:
            lines += [f"## {heading}", "", words, ""]
    return "\n".join(lines).rstrip() + "\n"


def picture_name(name: str) -> str:
    """The file of a comparison's curves."""
    return f"results-{name}.svg"


def main() -> int:
    """Write the page and its pictures; 2 if there is nothing to write about."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--page", type=Path, default=Path("docs/results.md"))
    parser.add_argument(
        "--commentary", type=Path, default=Path(__file__).with_name("results_commentary.md")
    )
    asked = parser.parse_args()
    found = {
        path.parent.name: json.loads(path.read_text())
        for path in sorted(asked.results.glob("*/compare.json"))
    }
    if not found:
        print(f"{asked.results} holds no */compare.json to write about", file=sys.stderr)
        return 2
    comments = comments_of(asked.commentary.read_text() if asked.commentary.exists() else "")
    pictures = asked.page.parent / "pictures"
    pictures.mkdir(parents=True, exist_ok=True)
    for name, record in found.items():
        (pictures / picture_name(name)).write_text(curves(record))
    asked.page.write_text(page(found, comments, pictures.name))
    return 0


if __name__ == "__main__":
    sys.exit(main())

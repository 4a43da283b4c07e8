"""Measuring: interleaved repetitions, ratios of one run, and what machine it was."""

import argparse
import gc
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from retrograde.cli.compare import machine

PACKAGES = ("torch", "transformers", "retrograde")


@dataclass(frozen=True)
class Figure:
    """One ratio, and what it should be."""

    benchmark: str
    case: str
    what: str
    """What the ratio is of."""
    ratio: float
    """Median over repetitions."""
    lowest: float
    highest: float
    target: float | None = None
    at_least: bool = True
    """Whether the ratio should be at least the target; else at most."""
    note: str = ""

    @property
    def reached(self) -> bool | None:
        """Whether the median is where it should be; None if nothing was asked."""
        if self.target is None:
            return None
        return self.ratio >= self.target if self.at_least else self.ratio <= self.target


def interleaved(cases: Mapping[str, Callable[[], Any]], repetitions: int) -> dict[str, list[float]]:
    """CPU seconds of each case, its first call not counted; cases take turns.

    It is the time of this process, all its threads together, so that what else the machine does
    counts as little as it can.
    """
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    for call in cases.values():
        call()
    for _ in range(repetitions):
        for name, call in cases.items():
            gc.collect()
            begun = time.process_time()
            call()
            seconds[name].append(time.process_time() - begun)
    return seconds


def ratio(above: Sequence[float], below: Sequence[float]) -> tuple[float, float, float]:
    """Median, lowest and highest ratio of what was measured side by side."""
    each = [a / b for a, b in zip(above, below, strict=True)]
    return statistics.median(each), min(each), max(each)


def report(figures: Sequence[Figure]) -> dict[str, Any]:
    """Everything of one run, as plain data."""
    versions: dict[str, str] = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "date": time.strftime("%Y-%m-%d"),
        "machine": machine(),
        "threads": torch.get_num_threads(),
        "versions": versions,
        "figures": [asdict(f) | {"reached": f.reached} for f in figures],
    }


def printed(found: Mapping[str, Any], console: Console) -> None:
    """A table."""
    table = Table(title=f"{found['machine']} · {found['versions']} · {found['date']}")
    for column in ("case", "what", "ratio", "spread", "asked", "reached"):
        table.add_column(column)
    for f in found["figures"]:
        sign = "≥" if f["at_least"] else "≤"
        asked = "" if f["target"] is None else f"{sign} {f['target']:.2f}"
        reached = {True: "yes", False: "no", None: ""}[f["reached"]]
        spread = f"{f['lowest']:.2f} to {f['highest']:.2f}"
        table.add_row(f["case"], f["what"], f"{f['ratio']:.2f}", spread, asked, reached)
    console.print(table)
    for f in found["figures"]:
        if f["note"]:
            console.print(f"{f['case']}: {f['note']}", soft_wrap=True)


def main(doc: str | None, measured: Callable[[argparse.Namespace], list[Figure]]) -> None:
    """The command of a benchmark."""
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--json", action="store_true", help="one JSON object, nothing else")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1, help="of this process (default 1)")
    parser.add_argument("--quick", action="store_true", help="the embedded policy alone")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    found = report(measured(asked))
    if asked.json:
        Console(soft_wrap=True, highlight=False).print(json.dumps(found), markup=False)
    else:
        printed(found, Console())

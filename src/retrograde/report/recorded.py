"""A run as its directory tells it: what it was started with, its figures, its evaluations."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from retrograde.data.stored import EVALUATIONS, Told

POINTS = 1500
"""Iterations shown of a run; of longer ones every second, third, ... line."""
TOLD = 3
"""Settings that tell methods apart."""
Record = Mapping[str, Any]


def untold(_damage: str) -> None:
    """Say nothing of what is damaged."""


@dataclass(frozen=True)
class Recorded:
    """A run's directory, read once."""

    folder: Path
    manifest: Record
    lines: Sequence[Record]
    """Of `metrics.jsonl`, in order."""
    evaluations: Sequence[Record]

    @property
    def settings(self) -> Record:
        """What it was started with."""
        return self.manifest["settings"]

    @property
    def seed(self) -> int:
        """Of tasks, worlds and sampling."""
        return int(self.settings["run"]["seed"])

    @cached_property
    def evaluated(self) -> list[Record]:
        """The lines of iterations after which held-out tasks were played."""
        return [line for line in self.lines if "eval/success" in line]

    def summary(self, method: str) -> dict[str, Any]:
        """What the cards say; runs are compared by their method."""
        last: Record = self.lines[-1] if self.lines else {}
        first, now = self.evaluated[:1], self.evaluated[-1:]
        greedy = "eval/success_greedy"
        return {
            "method": method,
            "seed": self.seed,
            "folder": str(self.folder),
            "steps": last.get("step", 0),
            "updates": last.get("policy_version", 0),
            "turns": last.get("env/steps", 0),
            "tokens": last.get("tokens/generated", 0),
            "seconds": last.get("wall_seconds", 0.0),
            "episodes": now[0].get("eval/episodes", 0) if now else 0,
            "sampled": [line["eval/success"] for line in (*first, *now)],
            "greedy": [line[greedy] for line in (*first, *now) if greedy in line],
            "commit": self.manifest.get("commit"),
            "packages": self.manifest.get("packages", {}),
            "machine": self.manifest.get("machine", ""),
            "command": " ".join(("retrograde", "train", *self.manifest.get("arguments", ()))),
            "settings": leaves(self.settings),
        }

    def curves(self) -> dict[str, list[float | None]]:
        """Every figure as a column; an iteration that does not tell it has none."""
        every = math.ceil(len(self.lines) / POINTS) or 1
        shown = [
            line
            for i, line in enumerate(self.lines)
            if i % every == 0 or i == len(self.lines) - 1 or "eval/success" in line
        ]
        names = dict.fromkeys(name for line in shown for name in line)
        return {name: [rounded(line.get(name)) for line in shown] for name in names}


def manifest_of(folder: Path) -> Record:
    """Read a run's manifest.

    Raises:
        ValueError: the directory is no run's, or its manifest is damaged.
    """
    path = folder / "manifest.json"
    if not path.is_file():
        raise ValueError(f"{folder} holds no manifest.json: it is not the directory of a run")
    try:
        manifest = json.loads(path.read_text())
        settings = manifest["settings"]
        for name in ("algorithm", "environment", "model"):
            settings[name] = str(settings[name])
        settings["run"]["seed"] = int(settings["run"]["seed"])
    except (KeyError, TypeError, ValueError) as cause:
        raise ValueError(f"{path} is damaged: {cause!r}") from cause
    return manifest


def recorded(folder: Path, told: Told = untold) -> Recorded:
    """Read a run's directory.

    Args:
        folder: the directory.
        told: told of each file of records that is damaged.

    Raises:
        ValueError: it is no run's, or its manifest is damaged.
    """
    manifest = manifest_of(folder)
    lines, evaluations = (_lines(folder / name, told) for name in ("metrics.jsonl", EVALUATIONS))
    return Recorded(folder, manifest, lines, evaluations)


def methods_of(runs: Sequence[Recorded]) -> list[str]:
    """What runs are compared by: those that differ in their seed alone share it.

    Runs of one algorithm with other settings are told apart by those settings.
    """
    held = [dict(leaves(run.settings)) for run in runs]
    for settings in held:
        settings.pop("run.seed", None)
    found: list[str] = []
    for run, mine in zip(runs, held, strict=True):
        names = ("algorithm", "environment", "model")
        alike = [other for other in held if all(other[n] == mine[n] for n in names)]
        differ = [n for n in mine if any(other.get(n) != mine[n] for other in alike)]
        told = ", ".join(f"{name.rpartition('.')[2]} {mine[name]}" for name in differ[:TOLD])
        algorithm = f"{mine['algorithm']} ({told})" if told else mine["algorithm"]
        found.append(f"{algorithm} on {run.settings['environment']}, {run.settings['model']}")
    return found


def runs_under(folder: Path) -> list[Path]:
    """The run that a directory is, or the runs in it, as `retrograde compare` leaves them.

    Raises:
        ValueError: there is none.
    """
    if (folder / "manifest.json").is_file():
        return [folder]
    compared = folder / "runs" if (folder / "runs").is_dir() else folder
    found = sorted(path.parent for path in compared.glob("*/manifest.json"))
    found += sorted(path.parent for path in compared.glob("*/*/manifest.json"))
    if not found:
        raise ValueError(f"{folder}: no manifest.json in it or below it, so no run to look at")
    return found


def rounded(value: float | None) -> float | None:
    """Six digits, which is more than a screen shows; None for what is no number."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.6g}")


def leaves(tree: Record, prefix: str = "") -> list[tuple[str, str]]:
    """Nested settings, each with its full name."""
    found: list[tuple[str, str]] = []
    for name, value in tree.items():
        if isinstance(value, Mapping):
            found += leaves(cast("Record", value), f"{prefix}{name}.")
        else:
            found.append((prefix + name, "not set" if value is None else str(value)))
    return found


def _lines(path: Path, told: Told) -> list[Record]:
    """Whole lines; one that is being written, or was cut off, is left out."""
    found: list[Record] = []
    broken: list[str] = []
    texts = path.read_text(errors="replace").splitlines() if path.is_file() else []
    for number, text in enumerate(texts, 1):
        try:
            record = json.loads(text)
        except ValueError:
            record = None
        if isinstance(record, dict) and "step" in record:
            found.append(cast("Record", record))
        else:
            broken.append(str(number))
    if broken:
        told(f"{path} is damaged: left out is line {', '.join(broken)} of {len(texts)}")
    return found

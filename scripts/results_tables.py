"""Runs the experiments of `docs/results.md` and writes the page.

Run as `python scripts/results_tables.py [--runs FOLDER] [--workers N]`. A run that is already
complete in the folder is not repeated, so an interrupted series goes on where it stopped. Every
figure of the page is read from the runs' own `metrics.jsonl`.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import fmean
from typing import Any

SEEDS = (0, 1, 2)
HOP5 = ("--environment", "hop", "--environment.hops", "5", "--max-env-steps", "30000")
LAKE = ("--environment", "lake")
METHODS = {
    "grpo": ("--algorithm", "grpo"),
    "grpo_flat, recomputed (M1)": ("--algorithm", "grpo_flat"),
    "grpo_flat, sampled (M2)": (*("--algorithm", "grpo_flat", "--algorithm.behaviour", "sampled"),),
    "rtpo": ("--algorithm", "rtpo"),
    "rtpo_plus": ("--algorithm", "rtpo_plus"),
    "grpo, 1e-3, 16 prompts": (
        *("--algorithm", "grpo", "--algorithm.learning-rate", "1e-3", "--prompts", "16"),
    ),
    "rtpo, 1e-3": ("--algorithm", "rtpo", "--algorithm.learning-rate", "1e-3"),
}
INTRODUCTION = """\
Written by `scripts/results_tables.py`, which repeats every run. Success is the share of 256
held-out tasks solved at temperature 1 (standard error of one run: 1.5 to 3 points); ranges are
over seeds 0, 1 and 2, which share one warm start. Learning rate 5e-4 and everything else at its
default, for every method, except where a row says otherwise."""
LEGEND = """\
*Area*: mean of the evaluations after the start. *Ratio*: of trained to sampled probability at the
first minibatch of an update, before any step on it; the largest error is over the whole run, the
mean log-ratio over its first iteration. *Rows run*: distinct (context, action) pairs that went
through a forward and backward pass."""
DRIFT = """\
Drift of turns that an update did not train: mean absolute change of an action's log-probability,
in nats a phase."""
Lines = list[dict[str, Any]]


def experiments() -> dict[str, tuple[str, ...]]:
    """Arguments of every run, by a name that is also its folder's."""
    runs: dict[str, tuple[str, ...]] = {}
    for seed in SEEDS:
        for name, words in METHODS.items():
            runs[f"hop5/{name}/{seed}"] = (*HOP5, *words, "--seed", str(seed))
        for name in ("grpo", "rtpo", "rtpo_plus"):
            runs[f"lake/{name}/{seed}"] = (*LAKE, *METHODS[name], "--seed", str(seed))
        runs[f"hop/rtpo/{seed}"] = ("--seed", str(seed))
    return runs


def finished(folder: Path) -> bool:
    """Whether a run has come to its end: its last line is an evaluation past the start."""
    path = folder / "metrics.jsonl"
    if not path.exists():
        return False
    last = json.loads(path.read_text().splitlines()[-1])
    return last["step"] > 0 and "eval/success" in last and last["env/steps"] >= 30_000  # noqa: PLR2004


def run(folder: Path, words: Sequence[str]) -> None:
    """One training run; what an unfinished one left behind is set aside by going on with it."""
    if finished(folder):
        return
    command = [sys.executable, "-m", "retrograde.cli.main", "train", *words, "--out", str(folder)]
    if (folder / "manifest.json").exists():
        command.append("--resume")
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(  # noqa: S603 - our own command
        command, env=environment, check=False, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    print(f"{folder.parent.name} {folder.name}: done", flush=True)


def lines_of(runs: Path, group: str, name: str) -> list[Lines]:
    """The metrics of a method's runs, one list a seed."""
    found: list[Lines] = []
    for seed in SEEDS:
        text = (runs / group / name / str(seed) / "metrics.jsonl").read_text()
        found.append([json.loads(line) for line in text.splitlines()])
    return found


def spread(values: Sequence[float]) -> str:
    """Mean and range."""
    return f"{fmean(values):.3f} [{min(values):.3f} to {max(values):.3f}]"


def hop5_table(runs: Path) -> list[str]:
    """One row a method at equal generated turns."""
    head = (
        "| method | success at the end | greedy | area | first-minibatch ratio, largest error "
        "| mean abs log-ratio | rows run | tokens trained | sampling s | learning s |"
    )
    rows = [head, "|" + "---|" * 10]
    for name in METHODS:
        series = lines_of(runs, "hop5", name)
        steps = [[line for line in lines if line["step"] > 0] for lines in series]
        ends = [lines[-1] for lines in series]
        area = [fmean(ln["eval/success"] for ln in s if "eval/success" in ln) for s in steps]
        error = max(ln.get("first_minibatch/ratio/error_max", 0.0) for s in steps for ln in s)
        log_ratio = fmean(s[0]["first_minibatch/ratio/abs_log_mean"] for s in steps)
        trained = fmean(sum(ln.get("rows/trained", 0) for ln in s) for s in steps)
        tokens = fmean(
            sum(ln.get("tokens/trained", 0) * ln.get("update/steps", 0) for ln in s) for s in steps
        )
        sampling = fmean(sum(ln.get("seconds/sampling", 0) for ln in s) for s in steps)
        learning = fmean(sum(ln.get("seconds/learning", 0) for ln in s) for s in steps)
        rows.append(
            f"| {name} | {spread([end['eval/success'] for end in ends])} "
            f"| {fmean(end['eval/success_greedy'] for end in ends):.3f} | {fmean(area):.3f} "
            f"| {error:.1e} | {log_ratio:.1e} | {trained:,.0f} | {tokens:,.0f} "
            f"| {sampling:.0f} | {learning:.0f} |"
        )
    return rows


def ends_table(runs: Path, group: str, names: Sequence[str]) -> list[str]:
    """Start and end of each method, seed by seed."""
    rows = ["| method | start | end, seed by seed | greedy end | turns |", "|---|---|---|---|---|"]
    for name in names:
        series = lines_of(runs, group, name)
        ends = [lines[-1] for lines in series]
        shares = ", ".join(f"{end['eval/success']:.3f}" for end in ends)
        greedy = ", ".join(f"{end['eval/success_greedy']:.3f}" for end in ends)
        turns = fmean(end["env/steps"] for end in ends)
        start = series[0][0]["eval/success"]
        rows.append(f"| {name} | {start:.3f} | {shares} | {greedy} | {turns:,.0f} |")
    return rows


def drift_table(runs: Path) -> list[str]:
    """Drift by turn, averaged over the runs."""
    rows = ["| method | " + " | ".join(f"turn {k}" for k in range(6)) + " |", "|" + "---|" * 7]
    for name in ("rtpo", "rtpo_plus"):
        lines = [line for series in lines_of(runs, "hop5", name) for line in series]
        cells: list[str] = []
        for k in range(6):
            seen = [ln[f"drift/turn_{k}"] for ln in lines if f"drift/turn_{k}" in ln]
            cells.append(f"{fmean(seen):.3f}" if seen else "always trained")
        rows.append(f"| {name} | " + " | ".join(cells) + " |")
    return rows


def page(runs: Path, commentary: str) -> str:
    """The whole page."""
    return "\n".join(
        [
            "# Results",
            "",
            INTRODUCTION,
            "",
            "## RTPO on `hop` (3 hops), the quick start",
            "",
            *ends_table(runs, "hop", ["rtpo"]),
            "",
            "## `hop` with 5 hops and managed context: equal generated turns (30,000)",
            "",
            *hop5_table(runs),
            "",
            LEGEND,
            "",
            DRIFT,
            "",
            *drift_table(runs),
            "",
            "## `lake` (40,000 turns)",
            "",
            *ends_table(runs, "lake", ["grpo", "rtpo", "rtpo_plus"]),
            "",
            commentary.strip(),
            "",
            machine(),
            "",
        ]
    )


def machine() -> str:
    """What it was measured on."""
    return (
        f"Machine: {platform.machine()}, {os.cpu_count()} cores, one thread a run; "
        f"Python {platform.python_version()}."
    )


def main() -> int:
    """Run what is missing, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, default=Path("runs/results"))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--page", type=Path, default=Path("docs/results.md"))
    asked = parser.parse_args()
    with ThreadPoolExecutor(asked.workers) as pool:
        jobs = [pool.submit(run, asked.runs / name, words) for name, words in experiments().items()]
        for job in jobs:
            job.result()
    comments = Path(__file__).with_name("results_commentary.md")
    asked.page.write_text(page(asked.runs, comments.read_text() if comments.exists() else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Draws how success on held-out tasks rises in some runs.

Run as `python scripts/learning_curves.py OUT.svg NAME=DIR[,DIR...] ...`: one panel for each name,
one line for each run.
"""

import json
import sys
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt

mpl.use("svg")
mpl.rcParams["svg.hashsalt"] = "retrograde"  # the same picture from the same numbers


def curve(run: Path) -> tuple[list[float], list[float]]:
    """Turns generated, and success at temperature 1, at each evaluation."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    seen = [line for line in lines if "eval/success" in line]
    return [line["env/steps"] for line in seen], [line["eval/success"] for line in seen]


def main(arguments: list[str]) -> int:
    """Draw one picture."""
    out, *wanted = arguments
    panels = [name.partition("=")[::2] for name in wanted]
    figure, axes = plt.subplots(1, len(panels), figsize=(4 * len(panels), 3), squeeze=False)
    for axis, (name, runs) in zip(axes[0], panels, strict=True):
        for run in map(Path, runs.split(",")):
            seed = json.loads((run / "manifest.json").read_text())["settings"]["run"]["seed"]
            axis.plot(*curve(run), marker=".", label=f"seed {seed}")
        axis.set(title=name, xlabel="turns", ylabel="success, held out", ylim=(0, 1))
        axis.grid(alpha=0.3)
        axis.legend(loc="lower right")
    figure.tight_layout()
    figure.savefig(out, metadata={"Date": None})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

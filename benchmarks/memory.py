"""Peak memory of an update against TRL's log-probability path.

A vocabulary of 49,152, a context of 2,048 tokens and 256 action tokens, as one answer and as 8
siblings of 32; SmolLM2's widths and 2 layers, so that what the head holds counts. Each update runs
in a process of its own; the figure is how far its memory rose above model and gradients.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.measure import Figure, main

TARGET = 0.5
ROOT = Path(__file__).parents[1]
TRL = ROOT / ".venv-trl" / "bin" / "python"
JOB = {
    "layers": 2,
    "vocabulary": 49_152,
    "context": 2048,
    "action": 256,
    "siblings": 1,
    "trees": 1,
    "most": 32_768,
}


def peak(way: str, **changed: Any) -> int:
    """Bytes."""
    python = str(TRL) if way == "trl" else sys.executable
    job = json.dumps(JOB | changed | {"way": way})
    command = [python, str(ROOT / "benchmarks" / "peak.py"), job]
    done = subprocess.run(  # noqa: S603 - our own words
        command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{way}: {done.stderr[-2000:]}")
    return int(done.stdout.split()[-1])


def measured(asked: argparse.Namespace) -> list[Figure]:
    """One answer, and siblings."""
    rival = "trl" if TRL.exists() else "flat"
    found: list[Figure] = []
    for case, changed in {
        "one answer of 256": {},
        "8 siblings of 32": {"siblings": 8, "action": 32},
    }.items():
        each = [
            (peak("trie", **changed), peak(rival, **changed))
            for _ in range(max(1, min(asked.repetitions, 2)))
        ]
        ratios = sorted(ours / theirs for ours, theirs in each)
        note = f"{each[0][0] / 2**20:.0f} MiB for {each[0][1] / 2**20:.0f} MiB"
        if rival == "flat":
            note += "; TRL is not installed (make setup-trl): against our own flat way"
        found.append(
            Figure(
                "memory", case, f"ours / {rival}", ratios[len(ratios) // 2], ratios[0], ratios[-1],
                TARGET, at_least=False, note=note,
            )
        )  # fmt: skip
    return found


if __name__ == "__main__":
    main(__doc__, measured)

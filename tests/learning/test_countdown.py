"""The true command learns to revise."""

import json
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_train_learns_countdown(tmp_path):
    pytest.importorskip("reasoning_gym")
    command = [sys.executable, "-m", "retrograde.cli.main", "train"]
    command += ["--environment", "reasoning:countdown", "--max-env-steps", "14000"]
    command += ["--out", str(tmp_path / "run"), "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    for name, least in (("eval/success", 0.12), ("eval/right_first", 0.12)):
        values = [line[name] for line in found if name in line]
        assert values[-1] >= values[0] + least

"""The true command learns the true task."""

import json
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_train_learns_hop(tmp_path):
    command = [sys.executable, "-m", "retrograde.cli.main", "train"]
    command += ["--max-env-steps", "12000", "--out", str(tmp_path / "run"), "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    success = [line["eval/success"] for line in found if "eval/success" in line]
    assert success[-1] >= success[0] + 0.4
    assert max(line.get("first_minibatch/ratio/error_max", 0.0) for line in found) < 1e-4
    assert f"{success[-1]:.3f}" in done.stdout

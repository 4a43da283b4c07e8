"""The examples are short, and run as they stand."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
MOST_LINES = 30
TRAINING = ("own_tools", "mcp_server")


@pytest.mark.parametrize("name", TRAINING)
def test_an_example_is_short(name):
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) <= MOST_LINES


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINING)
def test_an_example_trains_and_learns(name, tmp_path):
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py")],
        cwd=tmp_path,
        env=os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    start, end = re.findall(r"held-out success: ([0-9.]+) to ([0-9.]+)", done.stdout)[0]
    assert float(end) > float(start) + 0.1
    assert list((tmp_path / "runs").glob("*/checkpoints/step-*/model.safetensors"))

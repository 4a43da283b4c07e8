"""Environments of the library verifiers. It asks for other versions of what we use, so it has a
Python of its own, which `make setup-verifiers` makes."""

import os
import subprocess
from pathlib import Path

import pytest

from retrograde.environments.extras import MissingExtraError
from retrograde.environments.registry import environment_named

ROOT = Path(__file__).parents[3]
PYTHON = ROOT / ".venv-verifiers" / "bin" / "python"


@pytest.mark.slow
def test_environments_of_the_library_are_played():
    assert PYTHON.exists(), "run `make setup-verifiers` first; `make test-slow` does"
    done = subprocess.run(
        [PYTHON, str(Path(__file__).with_name("play.py"))],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (done.returncode, done.stdout.split()) == (0, ["tools", "turns", "failures"]), (
        done.stderr
    )


def test_without_the_library_it_is_said_how_to_get_it():
    with pytest.raises(MissingExtraError, match=r"pip install 'retrograde\[verifiers\]'"):
        environment_named("verifiers:wordle")()

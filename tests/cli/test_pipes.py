"""What is printed into a pipe that nobody reads any more: a quiet end, and nothing is lost."""

import json
import os
import subprocess
import sys

import pytest

from retrograde.trainer.checkpoint import checkpoints, fault

from .resumed import words

COMMAND = [sys.executable, "-m", "retrograde.cli.main"]


def unread(asked: list[str], lines: int) -> tuple[list[bytes], int, str]:
    """The first lines of what a command prints, and how it ends when no more are read."""
    with subprocess.Popen([*COMMAND, *asked], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as it:
        try:
            read = [it.stdout.readline() for _ in range(lines)]
            it.stdout.close()
            said = it.stderr.read().decode()
            return read, it.wait(60), said
        finally:
            it.kill()


def test_a_run_is_stopped_and_saved_as_by_sigterm(walker, tmp_path, retrograde):
    run = tmp_path / "run"
    (first,), code, said = unread([*words("rtpo", walker, run), "--steps", "10000", "--json"], 1)
    assert json.loads(first)["event"] == "begin"
    assert code == 0
    assert "Error" not in said
    last = checkpoints(run / "checkpoints")[-1]
    assert fault(last) is None
    assert f"stopped; kept is {last}" in said
    step = json.loads((last / "trainer" / "state.json").read_text())["step"]
    again = retrograde("train", "--resume", "--out", run, "--steps", str(step + 1), "--quiet")
    assert again.code == 0


# The table is printed by rich, which ends a command of its own with 1.
@pytest.mark.parametrize(("asked", "code"), [(["--help"], 141), (["list", "algorithms"], 1)])
def test_other_commands_end_quietly(asked, code):
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run([*COMMAND, *asked], stdout=write, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (code, b"")

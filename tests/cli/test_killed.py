"""The power is gone, twenty times over, and the run that is resumed is the undisturbed one."""

import json
import os
import pty
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from retrograde.trainer.checkpoint import newest_sound
from retrograde.trainer.lines import read_lines

from .resumed import same

pytestmark = pytest.mark.slow

KILLS = 20
STEPS = 100
LONGEST_LIFE_SECONDS = 1.2
"""From the moment the run itself begins: a few iterations."""


def command(*words) -> list[str]:
    return [sys.executable, "-m", "retrograde.cli.main", *map(str, words)]


def started(*words) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(*words),
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def finished(*words) -> None:
    process = started(*words)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said


def words(walker, out, **more):
    options = {
        "algorithm": "rtpo_plus", "environment": "lake", "model": walker, "prompts": 6,
        "eval-episodes": 2, "eval-every": 3, "save-every": 1, "algorithm.siblings": 3,
        "algorithm.min-signal": 1, "steps": STEPS, "out": out,
    }  # fmt: skip
    return ["train", *(f"--{name}={value}" for name, value in (options | more).items())]


def test_a_run_killed_at_twenty_moments_is_the_one_that_was_not(walker, tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    finished(*words(walker, whole))
    rng, reached = random.Random(0), []
    for _ in range(KILLS):
        begun = newest_sound(broken / "checkpoints", print) is not None
        life = ("train", "--resume", "--out", broken) if begun else words(walker, broken)
        if not begun and broken.exists():  # killed before there was anything to go on with
            assert not read_lines(broken / "metrics.jsonl")
            shutil.rmtree(broken)
        process = started(*life)
        for line in process.stderr:
            if line.startswith("run directory"):
                break
        time.sleep(rng.uniform(0, LONGEST_LIFE_SECONDS))
        process.kill()
        process.communicate()
        lines = read_lines(broken / "metrics.jsonl")
        kept = newest_sound(broken / "checkpoints", pytest.fail)  # none is half-written
        if kept is not None:
            step = int(kept.name.removeprefix("step-"))
            assert step >= max([line["step"] for line in lines], default=0) - 1
            reached.append(step)
    assert reached == sorted(reached)
    assert len(set(reached)) > 1
    assert reached[-1] < STEPS, "the last kills found a run that was over"
    finished("train", "--resume", "--out", broken)
    same(broken, whole, STEPS)


def test_ctrl_c_on_a_terminal_restores_it_and_keeps_what_there_is(walker, tmp_path):
    """With the live panel: the cursor is shown again, and what is kept is said below."""
    out = tmp_path / "run"
    main, end = pty.openpty()
    process = subprocess.Popen(
        command(*words(walker, out, steps=1000)),
        stdin=end, stdout=end, stderr=end, start_new_session=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "TERM": "xterm", "COLUMNS": "100"},
    )  # fmt: skip
    os.close(end)
    said = b""
    while not read_lines(out / "metrics.jsonl"):
        said += os.read(main, 65536)
    asked = time.monotonic()
    process.send_signal(signal.SIGINT)
    try:
        while more := os.read(main, 65536):
            said += more
    except OSError:  # the other end is closed
        pass
    assert process.wait(timeout=60) == 130
    assert time.monotonic() - asked < 30  # ten seconds on a machine that is not busy with tests
    text = said.decode(errors="replace")
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")  # shown after it was hidden
    assert "stopping: the iteration under way" in text
    assert re.search(r"stopped; kept is \S+/step-0+\d+\r?\n", text)
    assert "Traceback" not in text


def children(pid: int) -> set[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children")
    return {int(child) for task in found.parents[1].iterdir()
            for child in (task / "children").read_text().split()}  # fmt: skip


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_comparison_that_is_killed_leaves_no_run_behind(walker, tmp_path):
    process = started(
        "compare", "--algorithms", "rtpo,grpo", "--environment", "lake", "--model", walker,
        "--seeds", 1, "--budget", 1000000, "--jobs", 2, "--eval-episodes", 2,
        "--out", tmp_path / "c",
    )  # fmt: skip
    while len(list((tmp_path / "c").rglob("metrics.jsonl"))) < 2:
        assert process.poll() is None, process.communicate()
        time.sleep(0.2)
    runs = children(process.pid)
    assert len(runs) == 2
    process.kill()
    process.communicate()
    waited = time.monotonic() + 30
    while any(map(alive, runs)) and time.monotonic() < waited:
        time.sleep(0.2)
    assert not any(map(alive, runs))
    for manifest in (tmp_path / "c").rglob("manifest.json"):  # and each left a checkpoint
        assert newest_sound(manifest.parent / "checkpoints", pytest.fail)
        assert json.loads(manifest.read_text())["settings"]["run"]["max_tokens"] == 1000000

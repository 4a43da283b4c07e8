"""A run that is killed at any moment and resumed is the run that was not."""

import json
import os
import signal
import subprocess
import sys

import pytest
from safetensors.torch import load_file

from retrograde.rollouts.grow import Grower
from retrograde.trainer.checkpoint import checkpoints

from .resumed import LONG, STEPS, metrics, same, words

METHODS = ("rtpo", "rtpo_plus")

KILLED_WHILE_LEARNING = """
import os, signal, sys
from retrograde.cli.main import main
from retrograde.trainer import loop

learn, calls = loop.learn, 0


async def killed(algorithm, state, *rest, **named):
    if state.step == 2 and state.version % 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return await learn(algorithm, state, *rest, **named)


loop.learn = killed
sys.exit(main(sys.argv[1:]))
"""
KILLED_WHILE_SAVING = """
import os, signal, sys
from retrograde.cli.main import main
from retrograde.trainer import checkpoint


def killed(tensors, path):
    with open(path, "wb") as half:
        half.write(b"half of it")
    os.kill(os.getpid(), signal.SIGKILL)


def save_file(tensors, path, _save=checkpoint.save_file):
    (killed if "step-000002" in str(path) else _save)(tensors, path)


checkpoint.save_file = save_file
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def killed(tmp_path_factory, walker):
    """Two runs in processes of their own, each killed in its third iteration or just before."""
    place = tmp_path_factory.mktemp("killed")
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    running = {
        method: subprocess.Popen(
            [sys.executable, "-c", program, *words(method, walker, place / method)],
            env=environment,
            stderr=subprocess.PIPE,
        )
        for method, program in zip(
            METHODS, (KILLED_WHILE_LEARNING, KILLED_WHILE_SAVING), strict=True
        )
    }
    for process in running.values():
        _, said = process.communicate(timeout=300)
        assert process.returncode == -signal.SIGKILL, said
        assert b"Loading weights" not in said  # --quiet is quiet
    return place


@pytest.fixture(scope="module", params=METHODS)
def whole(request, tmp_path_factory, walker):
    """A run that nobody disturbed."""
    from retrograde.cli.main import main

    out = tmp_path_factory.mktemp("whole") / request.param
    assert main(words(request.param, walker, out)) == 0
    return request.param, out


def test_the_runs_that_are_compared_do_learn(whole):
    _, out = whole
    lines = metrics(out)
    assert [line["step"] for line in lines] == list(range(STEPS + 1))
    assert all(line["update/steps"] > 0 for line in lines[1:])
    assert all(line["rows/run"] > 0 for line in lines[1:])
    assert lines[-1]["policy_version"] == sum(line["update/steps"] for line in lines[1:])


def test_a_killed_run_that_is_resumed_is_the_one_that_was_not(killed, whole, retrograde):
    method, out = whole
    broken = killed / method
    steps = [line["step"] for line in metrics(broken)]
    assert steps == [0, 1, 2]
    saved = [path.name for path in checkpoints(broken / "checkpoints")]
    # One was killed in its third iteration, the other before its second was saved.
    assert saved[-1] == {"rtpo": "step-000002", "rtpo_plus": "step-000001"}[method]
    said = retrograde("train", "--resume", "--out", broken, "--quiet")
    assert said.code == 0, said
    same(broken, out)


class Stopped(BaseException):
    """The power is gone."""


@pytest.mark.parametrize("whole", ["rtpo_plus"], indirect=True)  # it has all the state there is
@pytest.mark.parametrize("at", [2, 14, 24])
def test_it_is_wherever_it_was_stopped(whole, walker, tmp_path, monkeypatch, retrograde, at):
    method, out = whole
    grow, calls = Grower.grow, []

    async def stopping(self, *asked):
        calls.append(asked)
        if len(calls) == at:
            raise Stopped
        return await grow(self, *asked)

    with monkeypatch.context() as patch:
        patch.setattr(Grower, "grow", stopping)
        with pytest.raises(Stopped):
            retrograde(*words(method, walker, tmp_path / "run"))
    said = retrograde("train", "--resume", "--out", tmp_path / "run", "--quiet")
    assert said.code == 0, said
    same(tmp_path / "run", out)


@pytest.mark.parametrize("whole", ["rtpo"], indirect=True)
def test_a_run_in_pieces_is_a_run_in_one(whole, walker, tmp_path, retrograde):
    """Every iteration by itself: 1 + 1 + 1 = 3."""
    method, out = whole
    run = tmp_path / "run"
    first = words(method, walker, run)
    first[first.index("--steps") + 1] = "1"
    assert retrograde(*first).code == 0
    for steps in range(2, STEPS + 1):
        again = ["--resume", "--out", run, "--steps", steps, "--quiet"]
        assert retrograde("train", *again).code == 0
    same(run, out)
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["settings"]["run"]["steps"] == STEPS


@pytest.mark.parametrize(
    ("method", "critic"), [("ppo", "own"), ("ppo", "shared"), ("turn_ppo", "own")]
)
def test_a_run_with_a_critic_in_pieces_is_a_run_in_one(
    method, critic, walker, tmp_path, retrograde
):
    options = (
        *LONG,
        "--save-every",
        "1",
        "--algorithm.rollouts",
        "3",
        "--algorithm.critic",
        critic,
    )

    def played(out, steps):
        words = ("--algorithm", method, "--model", walker, *options, "--steps", str(steps))
        assert retrograde("train", *words, "--out", out, "--quiet").code == 0

    whole, pieces = tmp_path / "whole", tmp_path / "pieces"
    played(whole, STEPS)
    played(pieces, 1)
    for steps in range(2, STEPS + 1):
        again = ["--resume", "--out", pieces, "--steps", steps, "--quiet"]
        assert retrograde("train", *again).code == 0
    same(pieces, whole)
    lines = metrics(whole)[1:]
    assert all(line["value/loss"] > 0 for line in lines)
    saved = load_file(checkpoints(whole / "checkpoints")[-1] / "trainer/optimizer.safetensors")
    name = "critic/weights/head.weight" if critic == "own" else "critic/head/weight"
    assert saved[name].abs().max() > 0
    moments = "critic/exp_avg/head.weight" if critic == "own" else "exp_avg/value_head.weight"
    assert saved[moments].abs().max() > 0
    states = "critic/weights/transformer.embed_tokens.weight"
    assert (states in saved) == (critic == "own")

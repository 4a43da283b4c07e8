"""Runs that are compared with what became of them after something happened."""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file

from retrograde.trainer.checkpoint import checkpoints

STEPS = 3
LONG = ("--environment", "lake", "--prompts", "6", "--eval-episodes", "2", "--eval-every", "1")
OPTIONS = (*LONG, "--save-every", "1", "--algorithm.siblings", "3", "--algorithm.min-signal", "1")


def words(method, model, out):
    return ["train", "--algorithm", method, "--model", model, *OPTIONS, "--steps", str(STEPS),
            "--out", str(out), "--quiet"]  # fmt: skip


def metrics(out: Path) -> list[dict]:
    """Every line, without the clock."""
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    timed = ("wall_seconds", "training_seconds", "seconds/")
    return [{k: v for k, v in line.items() if not k.startswith(timed)} for line in lines]


def rollouts(out: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes()
        for path in [out / "evaluations.jsonl", *(out / "rollouts").iterdir()]
    }


def same(out: Path, other: Path, steps: int = STEPS) -> None:
    assert metrics(out) == metrics(other)
    assert rollouts(out) == rollouts(other)
    mine, theirs = checkpoints(out / "checkpoints")[-1], checkpoints(other / "checkpoints")[-1]
    assert mine.name == theirs.name == f"step-{steps:06d}"
    for name in ("model.safetensors", "trainer/optimizer.safetensors"):
        one, two = load_file(mine / name), load_file(theirs / name)
        assert one.keys() == two.keys()
        assert all(torch.equal(one[key], two[key]) for key in one)
    states = [json.loads((path / "trainer" / "state.json").read_text()) for path in (mine, theirs)]
    for state in states:
        for name in ("seconds", "training_seconds", "saved_at", "saving_seconds"):
            del state[name]
    assert states[0] == states[1]

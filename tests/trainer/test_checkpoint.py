"""Checkpoints are whole or not there."""

import json
from collections import deque

import pytest
import torch

from retrograde.data.rows import Row
from retrograde.trainer.checkpoint import checkpoints, load_state, save_checkpoint
from retrograde.trainer.run import State

ROW = Row((1, 2), (3, 4), (-0.1, -1 / 3), 2 / 3, 1, 0, (5, 0, 1, 2))
OPTIMIZER = {"steps": torch.tensor(7), "exp_avg/a": torch.randn(3, 4), "step/a": torch.tensor(7.0)}


def state(step):
    rows = deque([[ROW], [], [ROW, ROW]])
    return State(step, version=9, env_steps=100, tokens=200, seconds=1.25, recent=rows)


def written(folder, step, keep=2, save_model=None):
    return save_checkpoint(
        folder, state(step), OPTIMIZER, save_model or (lambda path: _model(path, step)), keep=keep
    )


def _model(path, step):
    (path / "config.json").write_text(json.dumps({"step": step}))


def test_what_is_saved_is_read_back_exactly(tmp_path):
    where = written(tmp_path / "checkpoints", 3)
    assert where == tmp_path / "checkpoints" / "step-000003"
    found, optimizer = load_state(where)
    assert found == state(3)
    assert optimizer.keys() == OPTIMIZER.keys()
    assert all(torch.equal(optimizer[name], OPTIMIZER[name]) for name in OPTIMIZER)
    assert (where / "config.json").exists()


def test_the_newest_are_kept(tmp_path):
    for step in (0, 1, 2, 9, 10):
        written(tmp_path, step)
    assert [path.name for path in checkpoints(tmp_path)] == ["step-000009", "step-000010"]


def test_checkpoints_are_in_the_order_of_their_steps(tmp_path):
    for name in ("step-1000000", "step-999999", "step-000002"):
        (tmp_path / name).mkdir()
    assert [path.name for path in checkpoints(tmp_path)] == [
        "step-000002", "step-999999", "step-1000000",
    ]  # fmt: skip
    assert checkpoints(tmp_path / "nowhere") == []


def test_a_save_that_is_interrupted_leaves_the_last_one_as_it_was(tmp_path):
    whole = written(tmp_path, 1)

    def interrupted(path):
        _model(path, 2)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        written(tmp_path, 2, save_model=interrupted)
    assert checkpoints(tmp_path) == [whole]
    assert load_state(whole)[0].step == 1
    assert written(tmp_path, 2) in checkpoints(tmp_path)  # what was left is no obstacle
    assert not list(tmp_path.glob(".*"))


def test_the_same_step_can_be_saved_again(tmp_path):
    written(tmp_path, 1)
    where = written(tmp_path, 1, save_model=lambda path: _model(path, 99))
    assert json.loads((where / "config.json").read_text()) == {"step": 99}


def test_a_directory_that_is_only_a_model_is_no_checkpoint(tmp_path):
    with pytest.raises(ValueError, match="holds no trainer state"):
        load_state(tmp_path)


def test_nothing_is_pickled(tmp_path):
    files = [path for path in written(tmp_path, 1).rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".json", ".safetensors"}

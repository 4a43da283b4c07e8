"""Checkpoints are whole or not there."""

import json
import os
import resource
import signal
from collections import deque
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from retrograde.data.rows import Row
from retrograde.trainer.checkpoint import (
    checkpoints,
    fault,
    load_state,
    newest_sound,
    save_checkpoint,
)
from retrograde.trainer.failure import NotWrittenError
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


def test_every_file_is_as_open_as_the_umask_says(tmp_path):
    """Some libraries write weights that their owner alone may read."""

    def save_model(path):
        (path / "model.safetensors").write_bytes(b"weights")
        (path / "model.safetensors").chmod(0o600)

    before = os.umask(0o027)
    try:
        where = written(tmp_path, 1, save_model=save_model)
    finally:
        os.umask(before)
    files = [path for path in where.rglob("*") if path.is_file()]
    assert where / "model.safetensors" in files
    assert {path.stat().st_mode & 0o777 for path in files} == {0o640}


def test_what_is_wrong_with_the_model_alone_can_be_asked(tmp_path):
    where = written(tmp_path, 1)
    (where / "trainer" / "optimizer.safetensors").unlink()
    assert fault(where, of_model=True) is None
    assert "optimizer.safetensors is missing" in fault(where)
    truncated(where / "config.json")
    assert "config.json has" in fault(where, of_model=True)


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


def test_a_sound_checkpoint_is_not_written_again(tmp_path):
    """There is no moment at which a resumed run's only checkpoint is gone."""
    written(tmp_path, 1)
    where = written(tmp_path, 1, save_model=lambda path: _model(path, 99))
    assert json.loads((where / "config.json").read_text()) == {"step": 1}


def truncated(path):
    path.write_bytes(path.read_bytes()[:-1])


def changed(path):
    bits = bytearray(path.read_bytes())
    bits[len(bits) // 2] ^= 1
    path.write_bytes(bytes(bits))


DAMAGE = [
    ("trainer/optimizer.safetensors", truncated, "optimizer.safetensors has"),
    ("trainer/optimizer.safetensors", changed, "is not what was written: its SHA-256 differs"),
    ("config.json", lambda path: path.unlink(), "config.json is missing"),
    ("COMPLETE.json", lambda path: path.unlink(), "COMPLETE.json is missing"),
    ("COMPLETE.json", truncated, "COMPLETE.json cannot be read"),
    ("COMPLETE.json", lambda path: path.write_text("[]"), "COMPLETE.json cannot be read"),
]


@pytest.mark.parametrize(("name", "damage", "said"), DAMAGE)
def test_a_damaged_checkpoint_is_named_and_the_one_before_is_taken(tmp_path, name, damage, said):
    older, newer = written(tmp_path, 1), written(tmp_path, 2)
    notices: list[str] = []
    assert newest_sound(tmp_path, notices.append) == newer  # nothing is wrong yet
    assert notices == []
    damage(newer / name)
    assert newest_sound(tmp_path, notices.append) == older
    (notice,) = notices
    assert str(newer) in notice
    assert said in notice
    assert written(tmp_path, 2) == newer  # the step comes again, and is written again
    assert fault(newer) is None


def test_a_damaged_checkpoint_ahead_costs_no_sound_one_its_place(tmp_path):
    """Steps 1 and 2, of which 2 is damaged; the run goes on from 1 with steps 1 again and 3."""
    written(tmp_path, 1)
    truncated(written(tmp_path, 5) / "config.json")
    written(tmp_path, 2)
    assert [path.name for path in checkpoints(tmp_path)] == [
        "step-000001", "step-000002", "step-000005",
    ]  # fmt: skip


def test_the_best_stays_however_old_it_is(tmp_path):
    for step in range(5):
        now = replace(state(step), best=0.5, best_step=1) if step else state(step)
        save_checkpoint(tmp_path, now, OPTIMIZER, lambda path: _model(path, 0), keep=2)
    assert [path.name for path in checkpoints(tmp_path)] == [
        "step-000001", "step-000003", "step-000004",
    ]  # fmt: skip


def test_files_and_directories_are_on_the_disk_before_the_name_is_given(tmp_path, monkeypatch):
    log, fsync, rename = [], os.fsync, Path.rename

    def logged(held):
        log.append(Path(f"/proc/self/fd/{held}").readlink().name)
        fsync(held)

    def renamed(self, target):
        log.append("renamed")
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", logged)
    monkeypatch.setattr(Path, "rename", renamed)
    written(tmp_path / "checkpoints", 1)
    before, after = log[: log.index("renamed")], log[log.index("renamed") + 1 :]
    assert set(before) == {
        "COMPLETE.json", "config.json", "optimizer.safetensors", "state.json", "trainer",
        ".step-000001.unfinished",
    }  # fmt: skip
    assert after == ["checkpoints"]


@contextmanager
def small_disk():
    """No file may grow beyond a thousand bytes, which is how a full disk feels.

    Only for as long as must be: the report of the tests may be a file as well.
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    heeded = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, heeded)


@pytest.mark.parametrize("what", ["model", "optimizer"])
def test_a_full_disk_is_said_and_costs_nothing_that_was_complete(tmp_path, what):
    whole = written(tmp_path, 1)
    much = {"x": torch.zeros(1000)} if what == "optimizer" else OPTIMIZER

    def save_model(path):
        (path / "config.json").write_bytes(b"x" * (2000 if what == "model" else 2))

    said = r"step-000002 cannot be written: .*--resume"
    with small_disk(), pytest.raises(NotWrittenError, match=said):
        save_checkpoint(tmp_path, state(2), much, save_model, keep=2)
    assert [path.name for path in tmp_path.iterdir()] == [whole.name]
    assert fault(whole) is None


def test_a_directory_that_is_only_a_model_is_no_checkpoint(tmp_path):
    with pytest.raises(ValueError, match="holds no trainer state"):
        load_state(tmp_path)


def test_nothing_is_pickled(tmp_path):
    files = [path for path in written(tmp_path, 1).rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".json", ".safetensors"}

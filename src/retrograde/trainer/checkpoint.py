"""Checkpoints: a `save_pretrained` directory with the run's state beside it.

A checkpoint is written under another name and brought to the disk, files and directories; then
`COMPLETE.json`, which holds the size and the SHA-256 of every file, is written, and the directory
is renamed. A directory called `step-N` is complete unless something happened to it later, and
then its checksums say so. Nothing is pickled.
"""

import hashlib
import json
import os
import shutil
import stat
from collections import deque
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

from safetensors.torch import (
    load_file,  # pyright: ignore[reportUnknownVariableType]
    save_file,  # pyright: ignore[reportUnknownVariableType]
)
from torch import Tensor

from retrograde.data.wire import row_from_list, row_to_list
from retrograde.trainer.failure import Writing
from retrograde.trainer.run import State

STATE = "trainer"
COMPLETE = "COMPLETE.json"


def save_checkpoint(
    folder: Path,
    state: State,
    optimizer: dict[str, Tensor],
    save_model: Callable[[Path], None],
    *,
    keep: int,
) -> Path:
    """Write `folder/step-N`, atomically, and remove older ones beyond `keep`, but not the best.

    A sound checkpoint of the same step stays as it is: a run that is resumed at that step has
    nothing new to say.

    Raises:
        NotWrittenError: the disk is full or refuses; nothing that was complete is touched.
    """
    final = folder / f"step-{state.step:06d}"
    unfinished = folder / f".{final.name}.unfinished"
    if fault(final) is not None:
        try:
            with Writing(final):
                shutil.rmtree(unfinished, ignore_errors=True)
                (unfinished / STATE).mkdir(parents=True)
                _write(unfinished, state, optimizer, save_model)
                if final.exists():
                    shutil.rmtree(final)
                unfinished.rename(final)
                synced(folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    # Those of later steps are damaged, or the run would have been resumed from them.
    older = [path for path in checkpoints(folder) if _step(path) <= state.step]
    for old in older[:-keep]:
        if _step(old) != state.best_step:
            shutil.rmtree(old)
    return final


def _write(
    place: Path, state: State, optimizer: dict[str, Tensor], save_model: Callable[[Path], None]
) -> None:
    save_model(place)
    save_file(optimizer, place / STATE / "optimizer.safetensors")
    record: dict[str, Any] = {entry.name: getattr(state, entry.name) for entry in fields(state)}
    record["recent"] = [[row_to_list(r) for r in rows] for rows in state.recent]
    (place / STATE / "state.json").write_text(json.dumps(record))
    everything = sorted(path for path in place.rglob("*"))
    # Some libraries write files that their owner alone may read, whatever the umask says.
    mode = stat.S_IMODE((place / STATE / "state.json").stat().st_mode)
    for path in everything:
        if path.is_file():
            path.chmod(mode)
    files = {str(path.relative_to(place)): _sum(path) for path in everything if path.is_file()}
    (place / COMPLETE).write_text(json.dumps({"step": state.step, "files": files}, indent=1))
    for path in (place / COMPLETE, *reversed(everything), place):
        synced(path)


def synced(path: Path) -> None:
    """Wait until a file, or the entries of a directory, are on the disk."""
    held = os.open(path, os.O_RDONLY)
    try:
        os.fsync(held)
    finally:
        os.close(held)


def _sum(path: Path) -> dict[str, int | str]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"bytes": path.stat().st_size, "sha256": digest}


def checkpoints(folder: Path) -> list[Path]:
    """Checkpoints by step, oldest first; whether they are still sound, `fault` says."""
    return sorted(folder.glob("step-[0-9]*"), key=_step)


def _step(checkpoint: Path) -> int:
    return int(checkpoint.name.partition("-")[2])


def fault(checkpoint: Path, *, of_model: bool = False) -> str | None:
    """What is wrong with a checkpoint; None if every file is as it was written.

    Args:
        checkpoint: its directory.
        of_model: leave out what only training needs.
    """
    path = checkpoint / COMPLETE
    try:
        files = cast("dict[str, dict[str, Any]]", json.loads(path.read_text())["files"])
        for name, wanted in files.items():
            if of_model and Path(name).parts[0] == STATE:
                continue
            if (size := (checkpoint / name).stat().st_size) != wanted["bytes"]:
                return f"{name} has {size} bytes, written were {wanted['bytes']}"
            if _sum(checkpoint / name) != wanted:
                return f"{name} is not what was written: its SHA-256 differs"
    except FileNotFoundError as cause:
        return f"{Path(cause.filename).relative_to(checkpoint)} is missing"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as cause:
        return f"{COMPLETE} cannot be read: {cause}"
    return None


def newest_sound(folder: Path, told: Callable[[str], None]) -> Path | None:
    """The newest checkpoint that is as it was written; None if there is none.

    Args:
        folder: where checkpoints are.
        told: told of each newer one that is passed over, and why.
    """
    for path in reversed(checkpoints(folder)):
        wrong = fault(path)
        if wrong is None:
            return path
        told(f"{path} is damaged and passed over: {wrong}")
    return None


def load_state(checkpoint: Path) -> tuple[State, dict[str, Tensor]]:
    """The run's state and the optimizer's tensors.

    Raises:
        ValueError: the directory is a model, but no checkpoint of a run.
    """
    path = checkpoint / STATE / "state.json"
    if not path.exists():
        raise ValueError(f"{checkpoint} holds no trainer state ({STATE}/state.json)")
    record = json.loads(path.read_text())
    recent = deque([row_from_list(row) for row in rows] for rows in record.pop("recent"))
    tensors = load_file(checkpoint / STATE / "optimizer.safetensors")
    return State(**record, recent=recent), tensors

"""Checkpoints: a `save_pretrained` directory with the run's state beside it.

A checkpoint is written under another name and renamed when it is whole, so a directory
called `step-N` is always complete. Nothing is pickled.
"""

import json
import os
import shutil
from collections import deque
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from safetensors.torch import (
    load_file,  # pyright: ignore[reportUnknownVariableType]
    save_file,  # pyright: ignore[reportUnknownVariableType]
)
from torch import Tensor

from retrograde.data.wire import row_from_list, row_to_list
from retrograde.trainer.run import State

STATE = "trainer"


def save_checkpoint(
    folder: Path,
    state: State,
    optimizer: dict[str, Tensor],
    save_model: Callable[[Path], None],
    *,
    keep: int,
) -> Path:
    """Write `folder/step-N`, atomically, and remove the oldest beyond `keep`."""
    folder.mkdir(parents=True, exist_ok=True)
    final = folder / f"step-{state.step:06d}"
    unfinished = folder / f".{final.name}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    (unfinished / STATE).mkdir(parents=True)
    save_model(unfinished)
    save_file(optimizer, unfinished / STATE / "optimizer.safetensors")
    record = asdict(state) | {"recent": [[row_to_list(r) for r in rows] for rows in state.recent]}
    (unfinished / STATE / "state.json").write_text(json.dumps(record))
    for path in unfinished.rglob("*"):
        if path.is_file():
            with path.open("rb") as written:
                os.fsync(written.fileno())
    shutil.rmtree(final, ignore_errors=True)
    unfinished.rename(final)
    for old in checkpoints(folder)[:-keep]:
        shutil.rmtree(old)
    return final


def checkpoints(folder: Path) -> list[Path]:
    """Complete checkpoints, oldest first."""
    return sorted(folder.glob("step-[0-9]*"), key=lambda path: int(path.name.partition("-")[2]))


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

"""Files of records, one JSON object an iteration, that a kill at any moment leaves readable."""

import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, cast

from retrograde.trainer.checkpoint import synced
from retrograde.trainer.failure import Writing


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The records, up to one that a kill or a full disk cut off; none of a file that is not there.

    Its iteration has no checkpoint either.
    """
    records: list[dict[str, Any]] = []
    for text in path.read_text(errors="replace").splitlines() if path.exists() else ():
        try:
            record = json.loads(text)
        except ValueError:
            break
        if not (isinstance(record, dict) and "step" in record):
            break
        records.append(cast("dict[str, Any]", record))
    return records


def lost(path: Path, steps: Collection[int]) -> str | None:
    """What to say of steps that a file has no record of; None if it has one of each.

    Args:
        path: the file.
        steps: those up to the last checkpoint; later ones are made again, with their records.
    """
    told = {record["step"] for record in read_lines(path)}
    missing = [step for step in steps if step not in told]
    if not missing:
        return None
    return (
        f"{path} is damaged: of {len(missing)} of {len(steps)} steps so far there is no line in it "
        f"that can be read (the first is {missing[0]}); the run goes on without them"
    )


def add_line(path: Path, record: Mapping[str, Any]) -> None:
    """Add a record, and wait until it is on the disk."""
    with Writing(path), path.open("a") as out:
        out.write(json.dumps(record) + "\n")
        out.flush()
        os.fsync(out.fileno())


def forget_later_than(path: Path, step: int) -> None:
    """Drop records of iterations that are made again, whole or not at all."""
    if not path.exists():
        return
    kept = [json.dumps(record) + "\n" for record in read_lines(path) if record["step"] <= step]
    unfinished = path.with_name(f".{path.name}.unfinished")
    with Writing(path):
        unfinished.write_text("".join(kept))
        synced(unfinished)
        unfinished.rename(path)

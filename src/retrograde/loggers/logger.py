"""What a logger is told of a run, and what is asked of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

PROJECT = "retrograde"
"""What runs are filed under, unless the logger's own environment variable says otherwise."""


@dataclass(frozen=True)
class About:
    """The run that is logged."""

    folder: Path
    """Its directory."""
    name: str
    settings: Mapping[str, Any]
    """Every resolved setting, as plain data."""
    step: int
    """The iteration it stands at: 0, or more for a run that is resumed."""
    run_id: str | None = None
    """What the logger called the run when it was begun; None for a new one."""


class Logger(Protocol):
    """Told each iteration's figures."""

    run_id: str
    """What the logger calls the run, so that a resumed run goes on in the same one."""

    def log(self, step: int, line: Mapping[str, float]) -> None:
        """The figures of an iteration."""
        ...

    def close(self) -> None:
        """The run is over, or stopped."""
        ...

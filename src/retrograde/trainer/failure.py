"""A run that cannot go on, through no fault in this library: said in words, without a traceback."""

from pathlib import Path
from types import TracebackType
from typing import Self

from safetensors import SafetensorError

RUST_IO = "(os error "
"""Ends what libraries written in Rust say of a file; some say it with a plain Exception."""


class RunError(RuntimeError):
    """The message says what happened, what is safe, and what to do."""


class NotWrittenError(RunError):
    """The disk is full, or a file or directory cannot be written."""


class Writing:
    """A block that writes a file or a directory; what the disk refuses is said in words."""

    def __init__(self, path: Path, then: str = "go on with --resume") -> None:
        """Name what is written, and what can be done once the disk takes it."""
        self.path = path
        self.then = then

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Say which path it was, and what can be done."""
        if isinstance(error, OSError):
            why = error.strerror or str(error)
        elif isinstance(error, SafetensorError) or (error and RUST_IO in str(error)):
            why = str(error)
        else:
            return
        raise NotWrittenError(
            f"{self.path} cannot be written: {why}. What was complete before is untouched: make "
            f"room, or see to the rights, and {self.then}"
        ) from error

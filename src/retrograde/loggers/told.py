"""The loggers of one run, kept from doing it harm.

What a logger raises is said once and costs that logger its place for the rest of the run; the
figures are in `metrics.jsonl` in any case.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from retrograde.loggers.logger import About, Logger
from retrograde.loggers.registry import opened

KEPT = "loggers.json"
"""What each logger calls the run, by the logger's name."""


class Tolerance:
    """A block in which a logger may fail."""

    def __init__(self) -> None:
        """Nothing has failed."""
        self.error: str | None = None

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        """Keep what was raised; what is meant to stop the program goes through."""
        if not isinstance(error, Exception):
            return False
        self.error = f"{type(error).__name__}: {error}"
        return True


class Told:
    """Tells loggers of a run."""

    def __init__(self, names: Sequence[str], about: About, warn: Callable[[str], None]) -> None:
        """Open each, as the same run where the directory says what that was called.

        Args:
            names: of the loggers.
            about: the run.
            warn: told once of each logger that fails.
        """
        self._warn = warn
        self._loggers: dict[str, Logger] = {}
        path = about.folder / KEPT
        kept = _read(path)
        for name in names:
            with Tolerance() as tolerance:
                self._loggers[name] = opened(name, replace(about, run_id=kept.get(name)))
                kept[name] = self._loggers[name].run_id
            self._judge(name, tolerance)
        if kept:
            path.write_text(json.dumps(kept, indent=1) + "\n")

    def log(self, step: int, line: Mapping[str, float]) -> None:
        """The figures of an iteration."""
        for name, logger in list(self._loggers.items()):
            with Tolerance() as tolerance:
                logger.log(step, line)
            self._judge(name, tolerance)

    def close(self) -> None:
        """The run is over, or stopped."""
        for name, logger in list(self._loggers.items()):
            with Tolerance() as tolerance:
                logger.close()
            self._judge(name, tolerance)
        self._loggers.clear()

    def _judge(self, name: str, tolerance: Tolerance) -> None:
        if tolerance.error is not None:
            self._loggers.pop(name, None)
            self._warn(
                f"--log {name} failed and is told no more in this run ({tolerance.error}); "
                f"metrics.jsonl holds everything"
            )


def _read(path: Path) -> dict[str, str]:
    """What is kept; nothing of a file that is damaged, which costs a logger's run its sequel."""
    if not path.exists():
        return {}
    try:
        return {str(name): str(run_id) for name, run_id in json.loads(path.read_text()).items()}
    except (ValueError, AttributeError):
        return {}

"""A rival in a Python of its own, which lives on and does one job after another when told to.

A job is a line of JSON on its standard input, what came of it a line of JSON on its standard
output. It measures itself: the CPU seconds of its own process, as we do with ours.
"""

import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

ROOT = Path(__file__).resolve().parent.parent
SHOWN_LINES = 30
"""Of what a rival said before it failed."""


class MissingRivalError(Exception):
    """A rival is not installed; the message says what installs it."""


class RivalFailedError(Exception):
    """A rival did not do its job; the message ends with what it said."""


@dataclass(frozen=True)
class Place:
    """Where a rival is installed, and what starts it."""

    name: str
    """What people call it."""
    environment: str
    """The folder of its Python."""
    module: str
    """The module that does its jobs."""
    made_by: str
    """The command that installs it."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def python(self) -> Path:
        """Its Python."""
        return ROOT / self.environment / "bin" / "python"

    @property
    def is_there(self) -> bool:
        """Whether it has been installed whole."""
        return (ROOT / self.environment / ".installed").exists()

    @property
    def absent(self) -> str:
        """What to say if it is not there."""
        return f"{self.name} is left out: `{self.made_by}` installs it"


VLLM = Place(
    "vLLM",
    ".venv-vllm",
    "benchmarks.rival_vllm",
    "make setup-vllm",
    {
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # so that its CPU time is that of one process
        "VLLM_CPU_KVCACHE_SPACE": "2",
        "VLLM_NO_USAGE_STATS": "1",
    },
)
TRL = Place(
    "TRL", ".venv-trl", "benchmarks.rival_trl", "make setup-trl", {"TRL_EXPERIMENTAL_SILENCE": "1"}
)


class Rival:
    """A running rival."""

    def __init__(self, place: Place, settings: Mapping[str, Any], *, threads: int = 1) -> None:
        """Start it; its first answer, which this waits for, says that it is ready.

        Raises:
            MissingRivalError: it is not installed.
            RivalFailedError: it does not start.
        """
        if not place.is_there:
            raise MissingRivalError(place.absent)
        self.place = place
        with ExitStack() as stack:
            self._said = stack.enter_context(tempfile.TemporaryFile("w+"))
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                [str(place.python), "-m", place.module, json.dumps(settings)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                text=True,
                cwd=ROOT,
                env=_variables(place, threads),
            )
            stack.callback(self._end)
            self.ready = self._read()
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        """It is running already."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it."""
        self._stack.close()

    def asked(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """What came of a job.

        Raises:
            RivalFailedError: it ended instead.
        """
        _pipe(self._process.stdin).write(json.dumps(job) + "\n")
        _pipe(self._process.stdin).flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        line = _pipe(self._process.stdout).readline()
        if not line:
            self._process.wait()
            self._said.seek(0)
            last = "".join(self._said.readlines()[-SHOWN_LINES:])
            raise RivalFailedError(f"{self.place.name} ended instead of doing its job:\n{last}")
        return json.loads(line)

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            _pipe(pipe).close()


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None  # noqa: S101 - all were asked for
    return pipe


def _variables(place: Place, threads: int) -> dict[str, str]:
    """Of ours those that say where things are; a PYTHONPATH of ours would bring our packages."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return kept | {"OMP_NUM_THREADS": str(threads)} | dict(place.variables)


def measured_here(call: Callable[[], Any]) -> Callable[[], float]:
    """Its CPU seconds in this process, each time it is called."""

    def seconds() -> float:
        gc.collect()
        begun = time.process_time()
        call()
        return time.process_time() - begun

    return seconds


def alternating(
    cases: Mapping[str, Callable[[], float]], repetitions: int
) -> dict[str, list[float]]:
    """What each case says it took, its first call not counted; cases take turns."""
    took: dict[str, list[float]] = {name: [] for name in cases}
    for repetition in range(repetitions + 1):
        for name, call in cases.items():
            seconds = call()
            if repetition:
                took[name].append(seconds)
    return took


def left_out(note: str) -> None:
    """Say that a figure is missing, and why; on the error stream, which --json leaves free."""
    print(note, file=sys.stderr)


def each(seconds: Mapping[str, Sequence[float]], amount: float) -> str:
    """Amounts in a second, by case, for a note."""
    return ", ".join(
        f"{name} {amount / statistics.median(taken):.0f}" for name, taken in seconds.items()
    )

"""A Python interpreter for code that nobody has read: one confined process for each call."""

import asyncio
import json
import signal
import time
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

from retrograde.environments.confined.confinement import EVERY_WALL, NO_WALL, Limits, Walls
from retrograde.environments.confined.worker import Worker

STARTING_SECONDS = 30.0
"""Wall clock that an interpreter may take to start on a busy machine."""


USUAL = Limits(cpu_seconds=5, memory_bytes=1 << 30)


class SandboxError(ValueError):
    """Code cannot be run here as safely as was asked for."""


class Ending(StrEnum):
    """How a call ended."""

    OK = "ok"
    """The code ran to its end, or left with exit code 0."""
    ERROR = "error"
    """It raised, or left with another exit code."""
    TIME = "time"
    """It used up its CPU seconds, or its seconds of wall clock, and was killed."""
    OUTPUT = "output"
    """It wrote more than it may, and was killed."""
    KILLED = "killed"
    """A signal ended it, such as that of a fault in native code."""


@dataclass(frozen=True, slots=True)
class Execution:
    """What came of a call."""

    output: str
    """All it wrote, to standard output and standard error; bytes that are no UTF-8 replaced."""
    ending: Ending
    seconds: float
    """Wall clock, without the interpreter's start."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """Runs Python code in processes of their own, and leaves nothing of them behind.

    A process has an empty standard input, a few environment variables that are set here and no
    open files; `confinement` says what the kernel refuses it.
    """

    limits: Limits = USUAL
    seconds: float = 15.0
    """Wall clock of a call; then its process is killed."""
    output_bytes: int = 1 << 16
    """Written bytes of a call; then its process is killed."""
    needed: Walls = EVERY_WALL
    """Walls that have to stand. Where one does not, nothing is run."""

    async def run(self, code: str, seed: int = 0) -> Execution:
        """Run code; whatever it does, this returns.

        Args:
            code: Python. The value of an expression that it ends with is printed.
            seed: of `random`, so that the same code says the same.

        Raises:
            SandboxError: a wall that is needed cannot be put up on this machine.
        """
        worker = Worker("retrograde.environments.confined.interpreter")
        try:
            return await asyncio.to_thread(self._run, worker, code, seed)
        except asyncio.CancelledError:
            worker.kill()  # the thread hears the end, and lets go of the rest
            raise

    def order(self, code: str, seed: int) -> dict[str, Any]:
        """What the process is told."""
        limits, needed = asdict(self.limits), asdict(self.needed)
        return {"code": code, "seed": seed, "limits": limits, "needed": needed}

    def _run(self, worker: Worker, code: str, seed: int) -> Execution:
        ending = None
        try:
            worker.tell(self.order(code, seed))
            _check(self.needed, _walls_of(worker))
            begun = time.monotonic()
            try:
                worker.rest(self.seconds, self.output_bytes)
            except TimeoutError:
                ending = Ending.TIME
            if len(worker.heard) > self.output_bytes:
                ending = Ending.OUTPUT
        finally:
            code_of_exit = worker.end()
        return Execution(
            worker.heard[: self.output_bytes].decode(errors="replace"),
            ending or _ending(code_of_exit),
            time.monotonic() - begun,
        )


@lru_cache(maxsize=1)
def standing_walls() -> Walls:
    """Which of the kernel's walls a sandbox has on this machine."""
    worker = Worker("retrograde.environments.confined.interpreter")
    try:
        worker.tell(Sandbox(needed=NO_WALL).order("", 0))
        return _walls_of(worker)
    finally:
        worker.end()


def check_walls(needed: Walls) -> None:
    """See that this machine's kernel can put walls up.

    Raises:
        SandboxError: one that is needed is lacking.
    """
    _check(needed, standing_walls())


def _walls_of(worker: Worker) -> Walls:
    try:
        return Walls(**json.loads(worker.line(STARTING_SECONDS)))
    except (TimeoutError, EOFError, json.JSONDecodeError) as cause:
        raise SandboxError(f"the sandbox's interpreter did not start: {cause}") from cause


def _check(needed: Walls, standing: Walls) -> None:
    lacking = needed.lacking(standing)
    if lacking:
        raise SandboxError(
            f"isolation: this machine lacks {lacking}, which a policy's code is kept in by; "
            f"limits on time, memory and output alone are isolation=limits"
        )


def _ending(code: int) -> Ending:
    if code == -signal.SIGXCPU:
        return Ending.TIME
    if code < 0:
        return Ending.KILLED
    return Ending.ERROR if code else Ending.OK

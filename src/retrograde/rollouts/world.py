"""An environment, with every episode of it that is open and everything that went wrong in it."""

import logging
from collections import Counter
from collections.abc import Coroutine, Hashable, Iterable
from types import TracebackType
from typing import Any, Self, TypeVar

from retrograde.data.message import Message
from retrograde.environments.protocol import Environment, Forking, Observation
from retrograde.rollouts.limits import Limits
from retrograde.rollouts.line import Line
from retrograde.rollouts.patience import outcomes

log = logging.getLogger(__name__)
T = TypeVar("T")

LOGGED = 3
"""Failures of one kind that are logged between two clearings of the counts; all are counted."""


class BrokenError(RuntimeError):
    """Something that is not ours broke: a world, or what judges it. It costs one rollout."""

    def __init__(self, where: str, cause: Exception) -> None:
        """What was being done, and what it raised."""
        super().__init__(f"{where}: {cause!r}")
        self.where = where
        self.cause = cause

    @property
    def kind(self) -> str:
        """The type of what was raised."""
        return type(self.cause).__name__


class Breaking:
    """A block in which whatever is raised is somebody else's fault.

    What is meant to stop the program goes through.
    """

    def __init__(self, where: str) -> None:
        """Name what the block does."""
        self.where = where

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Say where it happened."""
        if isinstance(error, Exception) and not isinstance(error, BrokenError):
            raise BrokenError(self.where, error) from error


class World:
    """Opens, copies and closes episodes; all that is open is known, whatever happens."""

    def __init__(self, environment: Environment, limits: Limits) -> None:
        """Bind an environment and what it may take."""
        self.environment = environment
        self.limits = limits
        self.turn_limit = environment.turn_limit
        self.counts: Counter[str] = Counter()
        """What happened since the caller last cleared it."""
        self.reasons: Counter[str] = Counter()
        """What went wrong since the caller last cleared it, in words."""
        self._open: dict[Line, None] = {}

    @property
    def lines(self) -> tuple[Line, ...]:
        """Every line that is open."""
        return tuple(self._open)

    @property
    def said_reasons(self) -> str:
        """What went wrong, the most frequent first."""
        return ", ".join(f"{number} x {why}" for why, number in self.reasons.most_common())

    async def open(self, task: str, seed: int) -> Line:
        """Open a task.

        Raises:
            BrokenError: it could not be opened.
        """
        with Breaking("open"):
            return self._kept(await Line.open(self.environment, task, seed, self.limits))

    def opening(self, line: Line) -> tuple[Message, ...]:
        """What the policy is shown first.

        Raises:
            BrokenError: the episode does not say, or says what cannot be.
        """
        with Breaking("opening"):
            return line.opening()

    async def act(self, line: Line, text: str) -> Observation:
        """Act.

        Raises:
            BrokenError: the world broke, took too long, or said what cannot be.
        """
        with Breaking("act"):
            return await line.act(text)

    def state_key(self, line: Line) -> Hashable | None:
        """The whole state; None if it cannot be compared.

        Raises:
            BrokenError: the episode does not say.
        """
        with Breaking("state_key"):
            return line.state_key()

    async def fork(self, line: Line, seed: int) -> Line:
        """An independent continuation.

        Raises:
            BrokenError: it failed.
            ValueError: the environment says that there is no such thing.
        """
        if self.environment.forking is Forking.NONE:
            raise ValueError(f"{self.environment.name} can neither fork nor replay an episode")
        with Breaking("replay" if self.environment.forking is Forking.REPLAY else "fork"):
            return self._kept(await line.fork(seed))

    def _kept(self, line: Line) -> Line:
        self._open[line] = None
        return line

    async def close(self, lines: Iterable[Line]) -> None:
        """Close lines, each once, however that goes."""
        wanted = [line for line in lines if line in self._open]
        for line in wanted:
            del self._open[line]
        for outcome in await settled(line.close() for line in wanted):
            if isinstance(outcome, Exception):
                self.counts["failed_at/close"] += 1
                self.counts[f"close_failed/{type(outcome).__name__}"] += 1
                log.warning("%s could not be closed: %r", self.environment.name, outcome)

    def note(self, broken: BrokenError, task: str) -> None:
        """Count what went wrong, and say so, unless it was said often enough."""
        counted = f"failed/{broken.kind}"
        self.counts[counted] += 1
        self.counts[f"failed_at/{broken.where}"] += 1
        self.reasons[f"{broken.kind} at {broken.where}"] += 1
        if self.counts[counted] <= LOGGED:
            log.warning("%s, task %s, %s", self.environment.name, task, broken)


async def settled(calls: Iterable[Coroutine[Any, Any, T]]) -> list[T | Exception]:
    """Await everything; what raises is returned, except what is meant to stop the program."""
    results: list[T | Exception] = []
    for outcome in await outcomes(calls):
        if isinstance(outcome, BaseException) and not isinstance(outcome, Exception):
            raise outcome
        results.append(outcome)
    return results


def sound(outcomes: Iterable[T | Exception]) -> list[T]:
    """The outcomes, if none of them is an exception; otherwise the first exception."""
    found: list[T] = []
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome
        found.append(outcome)
    return found


def survived(outcomes: Iterable[T | Exception]) -> list[T | BrokenError]:
    """The outcomes, if none is worse than a broken rollout; otherwise the first that is."""
    found: list[T | BrokenError] = []
    for outcome in outcomes:
        if isinstance(outcome, Exception) and not isinstance(outcome, BrokenError):
            raise outcome
        found.append(outcome)
    return found

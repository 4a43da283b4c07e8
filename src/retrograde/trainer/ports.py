"""What the loop needs from the outside. Backends and the command line implement it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from torch import Tensor

from retrograde.data.rows import Row
from retrograde.data.tree import Group
from retrograde.losses.policy import PolicyLoss
from retrograde.losses.value import ValueLoss
from retrograde.rollouts.plans import Fork
from retrograde.trainer.run import State

Metrics = Mapping[str, float]


class Actors(Protocol):
    """Grow rollouts under the weights that were published last."""

    async def grow(
        self, groups: Sequence[Group], forks: Sequence[Sequence[Fork]], grown_in: int, seed: int
    ) -> list[Group]:
        """The groups with a round more in them."""
        ...

    async def load(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Take published weights."""
        ...

    async def close(self) -> None:
        """Give back what is held; the last call, also after a failure."""
        ...

    def drain(self) -> Mapping[str, int]:
        """Counts of what happened since the last call."""
        ...

    def figures(self) -> Sequence[tuple[str, float]]:
        """What is to be averaged by name, since the last call."""
        ...


class Learner(Protocol):
    """Owns the weights that are trained."""

    def step(self, rows: Sequence[Row], loss: PolicyLoss) -> Metrics:
        """One optimizer step."""
        ...

    def score(self, rows: Sequence[Row]) -> list[list[float]]:
        """log pi of each row's action under the weights of now."""
        ...

    def recomputed(self, rows: Sequence[Row]) -> list[Row]:
        """Rows with log-probabilities of now in place of the recorded ones."""
        ...

    def weights(self) -> Mapping[str, Tensor]:
        """The weights of now."""
        ...


class Critic(Protocol):
    """Says what states are worth."""

    def values(self, rows: Sequence[Row], loss: ValueLoss) -> list[tuple[float, ...]]:
        """Of each row's states, under the weights of now."""
        ...

    def step(self, rows: Sequence[Row], loss: ValueLoss) -> Metrics:
        """One optimizer step of its own; none if it learns in the policy's steps."""
        ...


class Journal(Protocol):
    """Told what happens; keeps it, and shows it."""

    def doing(self, what: str) -> None:
        """What is going on now."""
        ...

    def add(self, metrics: Metrics) -> None:
        """Figures of one update; those of an iteration are averaged."""
        ...

    def count(self, name: str, number: float = 1) -> None:
        """Something to be added up over the iteration."""
        ...

    def wanted(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Those of the rows that an update trained on whose scores after it are to be kept."""
        ...

    def judged(self, rows: Sequence[Row], after: Sequence[Sequence[float]] | None) -> None:
        """What an update trained on, and the scores that were wanted; none if it was skipped."""
        ...

    def close_step(self, state: State, groups: Sequence[Group], evaluation: Metrics | None) -> None:
        """Write the iteration down."""
        ...


def _unknown(task: str) -> tuple[int, ...]:
    raise LookupError(f"nobody said what the right answer of task {task!r} is")


def _never() -> bool:
    return False


def _nowhere(_state: State, _rows: Sequence[Row], _cause: FloatingPointError) -> None:
    return None


@dataclass(frozen=True)
class Ports:
    """Everything a run is connected to."""

    tasks: Callable[[int, int], Sequence[str]]
    """The tasks of an iteration, page by page: page 0 is what it begins with, and a plan that
    asks for further tasks gets those of the next pages."""
    actors: Actors
    learner: Learner
    journal: Journal
    evaluate: Callable[[], Awaitable[Metrics]]
    """Success on held-out tasks under the published weights."""
    checkpoint: Callable[[State], None]
    """Save everything, atomically."""
    is_stopping: Callable[[], bool] = _never
    """Whether somebody asked the run to stop; it does so between iterations."""
    keep_batch: Callable[[State, Sequence[Row], FloatingPointError], Path | None] = _nowhere
    """Keep a batch whose loss or gradient is not finite; where."""
    gold: Callable[[str], tuple[int, ...]] = _unknown
    """The right final answer of a task, as an action."""
    critic: Critic | None = None
    """Asked by algorithms that have one."""

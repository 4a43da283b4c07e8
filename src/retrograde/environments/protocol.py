"""What the library asks of an environment: a seeded, single-use, asynchronous episode.

A task is a string. Opening the same task with the same seed gives the same
episode; opening it with another seed gives the same start and, where the world
has chance in it, another future.
"""

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, Protocol, Self, runtime_checkable

from retrograde.data.message import ContextPolicy, Message
from retrograde.data.offer import Offer
from retrograde.data.tree import End
from retrograde.data.vocabulary import Vocabulary

Split = Literal["train", "test"]


class Forking(StrEnum):
    """How an episode can be continued twice from one point."""

    FORK = "fork"
    """`Episode.fork` returns an independent copy whose future chance is its own."""
    REPLAY = "replay"
    """Deterministic: the library opens the task again, plays the same actions and
    checks that it is told the same things."""
    NONE = "none"
    """It cannot be done. Methods that fork refuse the environment before any work."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What the environment says after an action (or before the first)."""

    messages: tuple[Message, ...]
    """Never empty while the episode goes on; may be empty at its end."""
    reward: float = 0.0
    """Reward for the action just taken."""
    end: End | None = None
    """FINISHED or TRUNCATED on the last observation, None before."""
    score: float | None = None
    """How far the task is done, by the environment's own reckoning: in [0, 1], and 1 exactly
    when it is done. Steers plans and measures success; it is never a reward."""
    events: tuple[str, ...] = ()
    """What happened that is to be counted, such as `call/malformed`; one count each."""
    measures: tuple[tuple[str, float], ...] = ()
    """Figures that are to be averaged by name, such as `f1`; most come with the last."""

    def __post_init__(self) -> None:
        if not math.isfinite(self.reward):
            raise ValueError(f"reward: a finite number is needed, got {self.reward}")
        for name, value in self.measures:
            if not math.isfinite(value):
                raise ValueError(f"measures: {name}: a finite number is needed, got {value}")
        if self.score is None:
            return
        if not (math.isfinite(self.score) and 0 <= self.score <= 1):
            raise ValueError(f"score: a number in [0, 1] or None is needed, got {self.score}")


class Episode(Protocol):
    """One attempt at a task. Used once, closed always."""

    def opening(self) -> tuple[Message, ...]:
        """What the policy is shown before its first answer."""
        ...

    async def act(self, text: str) -> Observation:
        """Take the policy's words, thoughts included, and say what happens.

        Text that means nothing is answered with a message saying so; it never raises.
        """
        ...

    def fork(self, seed: int) -> Self:
        """An independent copy of this episode; only for `Forking.FORK`.

        The copy has the same past and state. Its future chance is drawn from `seed` alone.
        """
        ...

    def state_key(self) -> Hashable | None:
        """The whole state, chance excluded, as something to compare; None if it cannot be.

        Two episodes of one task with equal keys have the same law for everything that follows.
        """
        ...

    def demonstrate(self, seed: int) -> str:
        """Words a fallible teacher would say here; warm starts are trained on them.

        Raises:
            LookupError: the environment has no teacher.
        """
        ...

    async def close(self) -> None:
        """Release what the episode holds. Called exactly once, also after a failure."""
        ...


class Environment(Protocol):
    """A family of tasks."""

    @property
    def name(self) -> str:
        """What `--environment` calls it."""
        ...

    @property
    def forking(self) -> Forking:
        """How an episode of it can be continued twice."""
        ...

    @property
    def turn_limit(self) -> int:
        """An episode ends, truncated, after this many actions at the latest."""
        ...

    @property
    def success_return(self) -> float:
        """A rollout whose return reaches this is a success."""
        ...

    @property
    def offers(self) -> frozenset[Offer]:
        """What it can tell beyond an outcome."""
        ...

    @property
    def context(self) -> ContextPolicy:
        """The context policy that the policy is shown the past under."""
        ...

    @property
    def max_new_tokens(self) -> int:
        """Tokens an answer may take, for a tokenizer with about one token a word."""
        ...

    @property
    def vocabulary(self) -> Vocabulary | None:
        """What the embedded policy's tokenizer has to know; None if the one that ships does."""
        ...

    def size(self, split: Split) -> int | None:
        """How many tasks a split has; None if it has no end."""
        ...

    def task(self, split: Split, index: int) -> str:
        """The task with this index; tasks of the two splits are never the same.

        Raises:
            ValueError: the index is negative, or not below the split's size.
        """
        ...

    def gold(self, task: str) -> str:
        """The words of the policy, a whole answer, that end the task rightly.

        Raises:
            LookupError: the environment has none.
            ValueError: the environment has no such task.
        """
        ...

    async def open(self, task: str, seed: int) -> Episode:
        """Start an episode.

        Raises:
            ValueError: the environment has no such task.
        """
        ...


@runtime_checkable
class Columned(Protocol):
    """An environment that knows more of its tasks than it says; reward functions are told."""

    def columns(self, task: str) -> Mapping[str, object]:
        """What is known of a task, by name, such as the columns of the file it comes from."""
        ...

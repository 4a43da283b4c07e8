"""Several reward functions and what each counts for."""

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from inspect import isawaitable
from numbers import Real
from typing import cast

from retrograde.data.offer import Offer
from retrograde.environments.protocol import Environment
from retrograde.rewards.record import Record

Reward = Callable[[Record], float | Awaitable[float]]
"""From a rollout that is over to what it is worth; a finite number, at once or awaited."""
ENVIRONMENT = "environment"
"""Names the environment's own reward among the others."""
TAKEN = ("mean", "std")
"""Names under which the journal keeps figures of the whole reward."""


@dataclass(frozen=True)
class EachTurn:
    """A reward for each turn: called after every one, with the rollout so far.

    It judges the last turn of what it gets. It must depend on nothing that follows, which it
    could not see: rollouts of a tree share turns, and so what these earned.

    Example:
        A decorator, too::

            @EachTurn
            def short(episode):
                return -0.01 * episode.last.tokens
    """

    function: Reward

    def __call__(self, record: Record) -> float | Awaitable[float]:
        """What the last turn is worth."""
        return self.function(record)


@dataclass(frozen=True)
class Weighted:
    """A reward function with its name and weight."""

    name: str
    function: Reward
    weight: float = 1.0
    label: str = ""
    """How it was asked for, if it has options; the name otherwise."""

    def __post_init__(self) -> None:
        if not math.isfinite(self.weight):
            raise ValueError(f"reward {self.name}: a finite weight is needed, got {self.weight}")

    @property
    def is_for_turns(self) -> bool:
        """Whether it is asked after every turn, not only after the last."""
        return isinstance(self.function, EachTurn)

    async def value(self, record: Record) -> float:
        """What the function says.

        Raises:
            TypeError: no number.
            ValueError: no finite one.
        """
        said: object = self.function(record)
        value: object = await cast("Awaitable[object]", said) if isawaitable(said) else said
        if not isinstance(value, Real):
            raise TypeError(f"reward {self.name}: a number is needed, got {value!r:.80}")
        if not math.isfinite(value):
            raise ValueError(f"reward {self.name}: a finite number is needed, got {value}")
        return float(value)


@dataclass(frozen=True)
class Rewards:
    """What rollouts are judged by, in place of the environment's own reward or beside it."""

    parts: tuple[Weighted, ...]

    def __post_init__(self) -> None:
        names = [part.name for part in self.parts]
        if not names:
            raise ValueError("rewards: at least one is needed, got none")
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"rewards: {name} is named {names.count(name)} times")
            if name in TAKEN:
                raise ValueError(f"rewards: reward/{name} is what the journal calls something else")

    @property
    def has_environment(self) -> bool:
        """Whether the environment's own reward counts."""
        return any(part.name == ENVIRONMENT for part in self.parts)

    @property
    def are_for_turns(self) -> bool:
        """Whether any of them, the environment's own aside, is given after every turn."""
        return any(part.is_for_turns for part in self.parts if part.name != ENVIRONMENT)

    @property
    def labels(self) -> dict[str, float]:
        """What was asked for, with its weight."""
        return {part.label or part.name: part.weight for part in self.parts}


def environments_own(record: Record) -> float:
    """What the environment gave for the last turn."""
    return record.last.observation.reward


def offered(environment: Environment, rewards: Rewards | None) -> frozenset[Offer]:
    """What an environment can tell, where these rewards are given in place of its own."""
    if rewards is None:
        return environment.offers
    own = rewards.has_environment and Offer.TURN_REWARDS in environment.offers
    is_for_turns = own or rewards.are_for_turns
    rest = environment.offers - {Offer.TURN_REWARDS}
    return rest | {Offer.TURN_REWARDS} if is_for_turns else rest

"""What is asked of a policy: sample, and score."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from retrograde.ops.cut import WHOLE, Cut

Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How answers are drawn."""

    temperature: float = 1.0
    """0 takes the likeliest token each time; its log-probability is then that of the
    unscaled distribution."""
    max_new_tokens: int = 64
    cut: Cut = WHOLE
    """Which tokens may be drawn; not asked at temperature 0."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise ValueError(f"temperature: at least 0 is needed, got {self.temperature}")
        if self.max_new_tokens < 1:
            raise ValueError(f"max_new_tokens: at least 1 is needed, got {self.max_new_tokens}")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a policy said to one context."""

    ids: Ids
    """As sampled, stop token included."""
    logprobs: tuple[float, ...]
    """In nats, under the distribution each token was drawn from."""
    stopped: bool
    """Whether it ended with a stop token; False means it ran out of tokens."""
    entropies: tuple[float, ...] = ()
    """Of the distribution each token was drawn from, in nats; empty if not told."""


class Policy(Protocol):
    """A policy that acts. It holds one published version of the weights."""

    version: int

    async def sample(self, contexts: Sequence[Ids], sampling: Sampling, seed: int) -> list[Answer]:
        """One answer to each context; equal contexts get independent answers.

        Raises:
            ValueError: a context is empty, or longer than the model takes.
        """
        ...

    async def score(self, contexts: Sequence[Ids], actions: Sequence[Ids]) -> list[list[float]]:
        """log pi of each action's tokens, in nats, under the held version."""
        ...

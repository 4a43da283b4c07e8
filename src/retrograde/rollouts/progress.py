"""How far the growing of a round is, for whoever shows it."""

from collections.abc import Callable
from typing import NamedTuple

from retrograde.data.tree import End


class Ended(NamedTuple):
    """How a rollout ended."""

    end: End
    earned: float
    """The sum of its rewards."""
    turns: int


class Progress(NamedTuple):
    """Where a round stands."""

    number: int
    """Of the round."""
    turn: int
    """Number, from 1, of the turn that is answered now by the rollout that is furthest."""
    live: int
    """Rollouts under way."""
    last: Ended | None
    """The rollout that ended last; None if none has."""


Watch = Callable[[Progress], None]


def unwatched(progress: Progress) -> None:
    """Show nothing."""
    del progress

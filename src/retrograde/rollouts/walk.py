"""A rollout under way: where it stands, where siblings can start, and what came of an answer."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from retrograde.data.message import Message
from retrograde.data.tree import End, Turn, shared_length
from retrograde.environments.protocol import Observation
from retrograde.policies.protocol import Answer
from retrograde.rendering.history import History
from retrograde.rewards.record import Said
from retrograde.rollouts.line import Line
from retrograde.rollouts.plans import Fork
from retrograde.rollouts.world import BrokenError


class Place(NamedTuple):
    """A turn, and with -1 for it the opening."""

    group: int
    tree: int
    turn: int


@dataclass(frozen=True, slots=True)
class Standing:
    """What has been said so far, and what the policy is shown of it."""

    history: History
    context: tuple[int, ...]
    before: tuple[int, ...]
    """The parent's context and action, which the tree already holds."""
    shown: tuple[Message, ...]
    """What the environment said last, as the policy is shown it."""
    past: tuple[Said, ...] = ()
    """All turns so far in words, for reward functions; empty where there are none."""
    earned: tuple[tuple[str, float], ...] = ()
    """What each reward function has given so far, by name."""


@dataclass
class Walk:
    """A rollout under way: where in which tree it stands and what it is shown next."""

    place: Place
    """The turn it stands behind."""
    fork: Fork
    fork_number: int
    line: Line
    standing: Standing

    @property
    def context(self) -> tuple[int, ...]:
        """All token ids the policy is shown."""
        return self.standing.context

    def stop(self) -> "Boundary":
        """Where it stands, to be gone on with in a later round."""
        return Boundary(self.standing, self.line, stopped=True)


@dataclass(frozen=True, slots=True)
class Boundary:
    """The state before a turn, never acted in: what siblings are forked from."""

    standing: Standing
    line: Line
    stopped: bool = False
    """Whether a rollout waits here to be gone on with."""


@dataclass(frozen=True, slots=True)
class Lost:
    """A boundary that should have been kept and could not be."""

    standing: Standing | None
    """None if not even the opening is known."""
    why: BrokenError


@dataclass
class Draft:
    """An answer and what came of it, before it is known how the rollout goes on."""

    walk: Walk
    answer: Answer
    observation: Observation | None
    """None if something broke."""
    reward: float = 0.0
    end: End | None = None
    """Why the rollout is over, as far as the environment and its limits say."""
    standing: Standing | None = None
    """Where the rollout stands now; None if it is over."""
    state: Hashable | None = None
    """The environment's, where answers that lead to the same one are merged."""
    figures: Sequence[tuple[str, float]] = ()
    """What of this turn is to be averaged, by name."""

    @property
    def context(self) -> tuple[int, ...]:
        """What the policy is shown next; empty if nothing is."""
        return () if self.standing is None else self.standing.context

    def turn(self, grown_in: int, version: int, end: End | None, twin: int | None) -> Turn:
        """As it stands in the tree.

        Args:
            grown_in: the round.
            version: of the weights that answered.
            end: why it is the last one, after merging.
            twin: the turn whose continuations stand for its own.
        """
        here = self.walk.standing
        shared = shared_length(here.before, here.context)
        return Turn(
            parent=self.walk.place.turn,
            shared=shared,
            fresh=here.context[shared:],
            observation=here.history.observation,
            action=self.answer.ids,
            logprobs=self.answer.logprobs,
            grown_in=grown_in,
            policy_version=version,
            reward=self.reward,
            end=end,
            merged_into=twin,
            score=None if self.observation is None else self.observation.score,
            entropies=self.answer.entropies,
            heard=here.shown,
        )

    def onwards(self, place: Place) -> Walk:
        """The rollout behind this answer, which is that turn of the tree."""
        if self.standing is None:
            raise AssertionError("a rollout that goes on stands somewhere")
        walk = self.walk
        return Walk(place, walk.fork, walk.fork_number, walk.line, self.standing)

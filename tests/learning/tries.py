"""Worlds in the language of `worlds`: one of second tries, and one of words that pay later."""

from dataclasses import dataclass

from retrograde.data.message import Message
from retrograde.data.offer import Offer
from retrograde.data.seeds import derived
from retrograde.data.tree import End
from retrograde.environments.protocol import Forking, Observation

from .worlds import BEST, CUES

MOST_TRIES = 3


@dataclass
class TriesEpisode:
    """One word is right; after a wrong one there is a hint."""

    cue: str
    hint: str
    tries: int = 0
    solved: bool = False

    @property
    def right(self) -> str:
        """Red says it all; under blue it is the hint that says it."""
        return BEST[self.cue if self.cue == "red" else self.hint]

    def opening(self) -> tuple[Message, ...]:
        return (Message("user", self.cue),)

    async def act(self, text: str) -> Observation:
        assert not self.solved, "a right try was gone on with"
        self.tries += 1
        self.solved = text == self.right
        if self.solved:
            return Observation((), reward=1.0, end=End.FINISHED, score=1.0)
        if self.tries == MOST_TRIES:
            return Observation((), end=End.TRUNCATED, score=0.0)
        return Observation((Message("user", self.hint),), score=0.0)

    def state_key(self) -> None:
        """It is not told."""

    def demonstrate(self, seed: int) -> str:
        raise LookupError("nobody teaches this")

    async def close(self) -> None:
        """Nothing is held."""


@dataclass(frozen=True)
class Tries:
    """Every turn is a try at the whole task. An episode can neither be copied nor replayed."""

    name = "tries"
    forking = Forking.NONE
    turn_limit = MOST_TRIES
    success_return = 1.0
    max_new_tokens = 1
    context = "full"
    offers = frozenset({Offer.SCORES, Offer.ATTEMPTS})

    def task(self, split: str, index: int) -> str:
        return f"{split}-{index}"

    def gold(self, task: str) -> str:
        raise LookupError("nobody says")

    async def open(self, task: str, seed: int) -> TriesEpisode:
        return TriesEpisode(*(cues[derived(task, i) % 2] for i, cues in enumerate(CUES)))


@dataclass
class MemosEpisode:
    """What is said about a cue pays one turn later; what is said last never does."""

    cues: tuple[str, ...]
    said: tuple[str, ...] = ()

    def opening(self) -> tuple[Message, ...]:
        return (Message("user", self.cues[0]),)

    async def act(self, text: str) -> Observation:
        paid = bool(self.said) and self.said[-1] == BEST[self.cues[len(self.said) - 1]]
        self.said = (*self.said, text)
        reward = paid / (len(self.cues) - 1)
        if len(self.said) == len(self.cues):
            return Observation((), reward, End.FINISHED)
        return Observation((Message("user", self.cues[len(self.said)]),), reward)

    def state_key(self) -> None:
        """It is not told."""

    def demonstrate(self, seed: int) -> str:
        raise LookupError("nobody teaches this")

    async def close(self) -> None:
        """Nothing is held."""


@dataclass(frozen=True)
class Memos:
    """Two words that pay, each a turn later, and a third that does not."""

    name = "memos"
    forking = Forking.NONE
    turn_limit = 3
    success_return = 1.0
    max_new_tokens = 1
    context = "markov"
    offers = frozenset({Offer.TURN_REWARDS})

    def task(self, split: str, index: int) -> str:
        return f"{split}-{index}"

    def gold(self, task: str) -> str:
        raise LookupError("nobody says")

    async def open(self, task: str, seed: int) -> MemosEpisode:
        cues = tuple(CUES[i % 2][derived(task, i) % 2] for i in range(self.turn_limit))
        return MemosEpisode(cues)

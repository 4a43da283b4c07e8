"""A world of two turns that any babble earns something in; every answer earns its own."""

from dataclasses import dataclass
from typing import ClassVar

from retrograde.data.message import Message
from retrograde.data.tree import End
from retrograde.environments.plain import PlainEnvironment, PlainEpisode
from retrograde.environments.protocol import Forking, Observation

TURNS = 2


@dataclass
class CountedEpisode(PlainEpisode):
    """Says how much was said; what is earned is a number that no two answers share for long."""

    said: tuple[str, ...] = ()

    def opening(self) -> tuple[Message, ...]:
        return (
            Message("system", "You say words.", lasting=True),
            Message("user", "Say a word. ünï \U0001f642"),
        )

    async def act(self, text: str) -> Observation:
        self.said = (*self.said, text)
        words = (Message("user", f"You said {len(text)} letters, and then?"),)
        if len(self.said) < TURNS:
            return Observation(words)
        earned = sum(map(ord, "".join(self.said))) % 11 / 10
        return Observation(words, reward=earned, end=End.FINISHED)

    def fork(self, seed: int) -> "CountedEpisode":
        return CountedEpisode(self.said)


@dataclass(frozen=True)
class Counted(PlainEnvironment):
    """As its episodes are."""

    name: ClassVar[str] = "counted"
    forking: ClassVar[Forking] = Forking.FORK
    turn_limit: ClassVar[int] = TURNS
    max_new_tokens: ClassVar[int] = 4

    async def open(self, task: str, seed: int) -> CountedEpisode:
        return CountedEpisode()

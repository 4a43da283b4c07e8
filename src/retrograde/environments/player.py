"""Somebody who plays any environment, to see how it behaves; badly, but the same for a seed."""

import random
from collections.abc import Sequence

from retrograde.data.message import Message
from retrograde.data.offer import Offer
from retrograde.data.seeds import derived
from retrograde.environments.heard import checked
from retrograde.environments.protocol import Environment, Episode, Observation

GOLD_SHARE = 0.2
"""How often somebody without a teacher says the right final answer."""
LONGEST_PIECE = 4
"""Words."""


class Player:
    """Says what a teacher says if there is one, else the gold answer, else words it has read."""

    def __init__(self, environment: Environment) -> None:
        """Bind an environment."""
        self.environment = environment

    def answer(self, episode: Episode, task: str, heard: Sequence[Message], seed: int) -> str:
        """What to say now.

        Args:
            episode: the one that is played.
            task: its task.
            heard: all messages so far.
            seed: of the teacher, or of what is picked.
        """
        try:
            return episode.demonstrate(seed)
        except LookupError:
            chance = random.Random(seed)
        has_gold = Offer.GOLD in self.environment.offers
        if has_gold and chance.random() < GOLD_SHARE:
            return self.environment.gold(task)
        words = " ".join(message.content for message in heard).split()
        if not words:
            return "?"
        first = chance.randrange(len(words))
        return " ".join(words[first : first + chance.randint(1, LONGEST_PIECE)])


class Played:
    """What was said and heard on the way to an end, or to where a limit was."""

    def __init__(self, opening: tuple[Message, ...]) -> None:
        """Begin with the opening."""
        self.opening = opening
        self.said: list[str] = []
        self.heard: list[Observation] = []

    @property
    def is_over(self) -> bool:
        """Whether the episode has ended."""
        return bool(self.heard) and self.heard[-1].end is not None

    @property
    def messages(self) -> list[Message]:
        """All that the environment said."""
        return [*self.opening, *(message for each in self.heard for message in each.messages)]

    @property
    def earned(self) -> float:
        """The return."""
        return sum(each.reward for each in self.heard)

    async def go(self, episode: Episode, words: str) -> Observation:
        """Say something.

        Raises:
            TypeError: what is said to it is no observation.
            ValueError: it is one that cannot be.
        """
        self.said.append(words)
        observation = checked(await episode.act(words))
        self.heard.append(observation)
        return observation

    async def follow(self, episode: Episode, words: Sequence[str]) -> None:
        """Say these things, up to the end."""
        for each in words:
            if self.is_over:
                break
            await self.go(episode, each)

    async def play(
        self, episode: Episode, player: Player, task: str, seed: int, turns: int
    ) -> None:
        """Let somebody play, up to the end or to a number of turns."""
        while not self.is_over and len(self.said) < turns:
            own = derived(seed, len(self.said))
            await self.go(episode, player.answer(episode, task, self.messages, own))

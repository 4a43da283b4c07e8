"""One running episode, with what it takes to continue it twice."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from retrograde.data.message import Message
from retrograde.environments.protocol import Environment, Episode, Forking, Observation


class ReplayDivergedError(RuntimeError):
    """An environment that claims to be deterministic said something else the second time."""


@dataclass
class Line:
    """An open episode and the words that led to where it is."""

    environment: Environment
    task: str
    seed: int
    episode: Episode
    turn_seconds: float
    """How long the environment may take over one action."""
    said: list[str] = field(default_factory=list[str])
    heard: list[tuple[Message, ...]] = field(default_factory=list[tuple[Message, ...]])

    @classmethod
    async def open(
        cls, environment: Environment, task: str, seed: int, turn_seconds: float
    ) -> "Line":
        """Open a task."""
        async with asyncio.timeout(turn_seconds):
            episode = await environment.open(task, seed)
        return cls(environment, task, seed, episode, turn_seconds)

    async def act(self, text: str) -> Observation:
        """Act, within the time limit.

        Raises:
            TimeoutError: the environment took longer than `turn_seconds`.
        """
        async with asyncio.timeout(self.turn_seconds):
            observation = await self.episode.act(text)
        if observation.end is None and not observation.messages:
            raise ValueError(f"{self.environment.name} said nothing though the episode goes on")
        self.said.append(text)
        self.heard.append(observation.messages)
        return observation

    async def fork(self, seed: int) -> "Line":
        """An independent continuation of this line, by the environment's fork contract.

        Raises:
            ReplayDivergedError: a replayed episode was told other things than this one.
        """
        if self.environment.forking is Forking.NONE:
            raise ValueError(f"{self.environment.name} can neither fork nor replay an episode")
        if self.environment.forking is Forking.FORK:
            copy = self.episode.fork(seed)
            return Line(
                self.environment,
                self.task,
                seed,
                copy,
                self.turn_seconds,
                list(self.said),
                list(self.heard),
            )
        return await self._replayed()

    async def _replayed(self) -> "Line":
        twin = await Line.open(self.environment, self.task, self.seed, self.turn_seconds)
        for text, told in zip(self.said, self.heard, strict=True):
            observation = await twin.act(text)
            if observation.messages != told:
                await twin.close()
                raise ReplayDivergedError(
                    f"{self.environment.name}, task {self.task}: after {text!r} it said "
                    f"{_words(told)!r} once and {_words(observation.messages)!r} on replay; "
                    f"an environment with chance in it cannot declare Forking.REPLAY"
                )
        return twin

    async def close(self) -> None:
        """Close the episode."""
        async with asyncio.timeout(self.turn_seconds):
            await self.episode.close()


def _words(messages: Sequence[Message]) -> str:
    return " ".join(message.content for message in messages)

"""One running episode, with what it takes to continue it twice."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from retrograde.data.message import Message
from retrograde.environments.heard import checked, told
from retrograde.environments.protocol import Environment, Episode, Forking, Observation
from retrograde.rollouts.limits import Limits
from retrograde.rollouts.patience import at_once, within


class ReplayDivergedError(RuntimeError):
    """An environment that claims to be deterministic said something else the second time."""


class EpisodeTimeoutError(TimeoutError):
    """An episode used up the time it has in all."""


@dataclass(eq=False)
class Line:
    """An open episode and the words that led to where it is."""

    environment: Environment
    task: str
    seed: int
    episode: Episode
    limits: Limits
    said: list[str] = field(default_factory=list[str])
    heard: list[tuple[Message, ...]] = field(default_factory=list[tuple[Message, ...]])
    spent_seconds: float = 0.0
    """On actions, on the way here; a copy has spent what its original had."""

    @classmethod
    async def open(
        cls, environment: Environment, task: str, seed: int, limits: Limits | None = None
    ) -> "Line":
        """Open a task.

        Raises:
            TimeoutError: the environment took longer than `turn_seconds`.
        """
        limits = limits or Limits()
        episode = await within(
            limits.turn_seconds, lambda: environment.open(task, seed), f"{environment.name}: open"
        )
        return cls(environment, task, seed, episode, limits)

    def opening(self) -> tuple[Message, ...]:
        """What the policy is shown first."""
        messages = told(at_once(self._left(), self.episode.opening))
        if not messages:
            raise ValueError(f"{self.environment.name} opened {self.task!r} without a word")
        return messages

    async def act(self, text: str) -> Observation:
        """Act, within the time limits.

        Raises:
            TimeoutError: the environment took longer than `turn_seconds`.
            EpisodeTimeoutError: the episode took longer than `episode_seconds` in all.
            TypeError: what it said is no observation.
            ValueError: it said nothing, or what cannot be.
        """
        left, what = self._left(), f"{self.environment.name}: act"

        def took(seconds: float) -> None:
            self.spent_seconds += seconds
            if seconds > left:  # it blocked, and nothing could break in
                raise TimeoutError(f"{what} blocked for {seconds:.1f} s")

        observation = checked(await within(left, lambda: self.episode.act(text), what, took))
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
        if self.environment.forking is Forking.REPLAY:
            return await self._replayed()
        copy = at_once(self._left(), self.episode.fork, seed)
        if copy is self.episode:
            raise ValueError(f"{self.environment.name}: fork gave the episode itself, no copy")
        past = (list(self.said), list(self.heard), self.spent_seconds)
        return Line(self.environment, self.task, seed, copy, self.limits, *past)

    async def _replayed(self) -> "Line":
        twin = await Line.open(self.environment, self.task, self.seed, self.limits)
        is_alike = False
        try:
            for text, heard in zip(self.said, self.heard, strict=True):
                observation = await twin.act(text)
                if observation.messages != heard:
                    raise ReplayDivergedError(
                        f"{self.environment.name}, task {self.task}: after {text!r} it said "
                        f"{_words(heard)!r} once and {_words(observation.messages)!r} on replay; "
                        f"an environment with chance in it cannot declare Forking.REPLAY"
                    )
            is_alike = True
        finally:
            if not is_alike:
                await twin.close()
        return twin

    def state_key(self) -> Hashable | None:
        """The episode's own.

        Raises:
            TypeError: it is nothing that can be compared.
        """
        key = at_once(self.limits.turn_seconds, self.episode.state_key)
        hash(key)
        return key

    async def close(self) -> None:
        """Close the episode.

        Raises:
            TimeoutError: the environment took longer than `turn_seconds`.
        """
        name = f"{self.environment.name}: close"
        await within(self.limits.turn_seconds, self.episode.close, name)

    def _left(self) -> float:
        """The seconds that the next call may take."""
        left = self.limits.episode_seconds - self.spent_seconds
        if left <= 0:
            raise EpisodeTimeoutError(
                f"{self.environment.name}, task {self.task}: the episode took "
                f"{self.spent_seconds:.1f} s, and {self.limits.episode_seconds:g} s are its limit"
            )
        return min(left, self.limits.turn_seconds)


def _words(messages: Sequence[Message]) -> str:
    return " ".join(message.content for message in messages)

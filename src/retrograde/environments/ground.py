"""Where rules are looked at: tasks of an environment, and walks through them."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from retrograde.data.seeds import derived
from retrograde.environments.player import Played, Player
from retrograde.environments.protocol import Environment, Episode, Split

T = TypeVar("T")

SPLITS: tuple[Split, Split] = ("train", "test")


class ViolationError(Exception):
    """A rule is broken; the message says how."""


class NotApplicableError(Exception):
    """There is nothing that the rule is about; the message says why."""


class Ground:
    """Opens and closes episodes; every rule gets walks of its own, the same ones each time."""

    def __init__(self, environment: Environment, tasks: int, seed: int) -> None:
        """Choose tasks.

        Args:
            environment: what is looked at.
            tasks: how many of each split.
            seed: of walks.
        """
        self.environment = environment
        self.number = tasks
        self.seed = seed
        self.player = Player(environment)

    def tasks(self, split: Split, number: int | None = None) -> list[str]:
        """The first tasks of a split."""
        size = self.environment.size(split)
        wanted = self.number if number is None else number
        return [
            self.environment.task(split, i)
            for i in range(wanted if size is None else min(wanted, size))
        ]

    async def has_teacher(self) -> bool:
        """Whether somebody knows the way, more or less."""
        async with self.opened(self.sample[0], 0) as episode:
            try:
                episode.demonstrate(0)
            except LookupError:
                return False
        return True

    @property
    def sample(self) -> list[str]:
        """Tasks of both splits."""
        return [task for split in SPLITS for task in self.tasks(split)]

    @asynccontextmanager
    async def opened(self, task: str, seed: int) -> AsyncGenerator[Episode]:
        """An episode that is closed in the end."""
        episode = await self.environment.open(task, seed)
        try:
            yield episode
        finally:
            await episode.close()

    async def walk(self, task: str, seed: int, *way: int) -> Played:
        """Somebody's walk through a task; `way` tells walks apart."""
        async with self.opened(task, seed) as episode:
            walk = Played(episode.opening())
            whose = derived(self.seed, "walk", task, *way)
            await walk.play(episode, self.player, task, whose, self.environment.turn_limit)
        return walk

    async def again(self, task: str, seed: int, words: Sequence[str]) -> Played:
        """The same words in an episode that is opened anew."""
        async with self.opened(task, seed) as episode:
            walk = Played(episode.opening())
            await walk.follow(episode, words)
        return walk


async def outcome(call: Awaitable[T]) -> T | Exception:
    """What a call comes to, or what it raises; what is meant to stop the program goes through."""
    (found,) = await asyncio.gather(call, return_exceptions=True)
    if isinstance(found, BaseException) and not isinstance(found, Exception):
        raise found
    return found


def check_alike(one: Played, other: Played, what: str) -> None:
    """See that two walks are the same in every word and figure.

    Raises:
        ViolationError: they are not; the first difference is named.
    """
    if one.opening != other.opening:
        raise ViolationError(f"{what} opens with {one.opening!r} and with {other.opening!r}")
    for i, (first, second) in enumerate(zip(one.heard, other.heard, strict=False)):
        if first != second:
            raise ViolationError(
                f"{what}, turn {i}: {one.said[i]!r:.60} is answered with {first!r} and with "
                f"{second!r}"
            )
    if len(one.heard) != len(other.heard):
        raise ViolationError(f"{what} takes {len(one.heard)} turns and {len(other.heard)}")

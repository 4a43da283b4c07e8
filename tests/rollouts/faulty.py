"""A world in which things go wrong, each in its own way, by a chance that a seed decides."""

import asyncio
import contextlib
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar

from tests.rollouts.worlds import Book

from retrograde.data.message import Message
from retrograde.data.seeds import derived
from retrograde.data.tree import End
from retrograde.environments.lake import Lake
from retrograde.environments.protocol import Environment, Episode, Forking, Observation


async def waits():
    await asyncio.sleep(60)


async def sulks():
    """Will not be cancelled."""
    while True:
        try:
            await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            if asyncio.current_task().cancelling() > 1:
                raise


async def breaks():
    raise OSError("no connection")


def said(**changes):
    async def fault():
        return Observation(**{"messages": (Message("user", "hm"),), **changes})

    return fault


async def nonsense():
    return "not an observation"


async def nothing():
    return None


async def quits():
    sys.exit(3)


async def stray():
    raise asyncio.CancelledError


def block(*_):
    """Hold everything up."""
    time.sleep(60)


async def blocks():
    block()


async def grinds():
    while True:
        with contextlib.suppress(Exception):  # it is this that has to be broken through
            sum(range(1000))


ACTS: dict[str, tuple[Callable, str]] = {
    "raises": (breaks, "OSError"),
    "waits": (waits, "TimeoutError"),
    "sulks": (sulks, "TimeoutError"),
    "blocks": (blocks, "TimeoutError"),
    "grinds": (grinds, "TimeoutError"),
    "quits": (quits, "ExitedError"),
    "is cancelled": (stray, "StrayCancellationError"),
    "says None": (nothing, "TypeError"),
    "says a string": (nonsense, "TypeError"),
    "says nothing": (said(messages=()), "ValueError"),
    "says no messages": (said(messages="north"), "TypeError"),
    "says no message": (said(messages=("north",)), "TypeError"),
    "says no text": (said(messages=(Message("user", None),)), "TypeError"),
    "says bytes": (said(messages=(Message("user", b"\xff\xfe"),)), "TypeError"),
    "says half a pair": (said(messages=(Message("user", "\ud83d"),)), "UnicodeEncodeError"),
    "pays nan": (said(reward=float("nan")), "ValueError"),
    "pays words": (said(reward="much"), "TypeError"),
    "scores inf": (said(score=float("inf")), "ValueError"),
    "ends as it pleases": (said(end="done"), "ValueError"),
    "says it failed": (said(end=End.FAILED), "ValueError"),
    "measures nan": (said(measures=(("f1", float("nan")),)), "ValueError"),
    "counts numbers": (said(events=(1,)), "TypeError"),
}
"""What can go wrong in an action, and what it is counted as."""


@dataclass
class FaultyEpisode:
    """Another environment's episode, with faults."""

    inner: Episode
    world: "Faulty"
    seed: int
    number: int
    turns: int = 0

    def _is_struck(self, where: str) -> bool:
        return self.world.is_struck(where, self.seed, self.turns)

    def opening(self):
        if self._is_struck("opening"):
            return self.world.faults["opening"]()
        return self.inner.opening()

    async def act(self, text):
        self.turns += 1
        if self._is_struck("act"):
            return await self.world.faults["act"]()
        return await self.inner.act(text)

    def fork(self, seed):
        if self._is_struck("fork"):
            return self.world.faults["fork"](self)
        inner = self.inner.fork(seed)
        return replace(self, inner=inner, seed=seed, number=self.world.book.begin())

    def state_key(self):
        if self._is_struck("state_key"):
            return self.world.faults["state_key"]()
        return self.inner.state_key()

    def demonstrate(self, seed):
        return self.inner.demonstrate(seed)

    async def close(self):
        self.world.book.closed[self.number] += 1
        if self._is_struck("close"):
            await self.world.faults["close"]()
        await self.inner.close()


@dataclass
class Faulty:
    """Another environment; `faults` says what goes wrong where, `chance` how often."""

    inner: Environment
    faults: dict[str, Callable]
    chance: float = 0.25
    seed: int = 0
    forking: Forking = Forking.FORK
    book: Book = field(default_factory=Book)

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def is_struck(self, where: str, *at: object) -> bool:
        if where not in self.faults:
            return False
        return derived(self.seed, where, *map(str, at)) % 1000 < 1000 * self.chance

    async def open(self, task, seed):
        if self.is_struck("open", task, seed):
            return await self.faults["open"]()
        inner = await self.inner.open(task, seed)
        return FaultyEpisode(inner, self, seed, self.book.begin())


async def talks():
    """On and on."""
    return Observation((Message("user", "ice " * 10**6),), score=0.5)


class Shaky:
    """A lake on which everything goes wrong now and then; nothing of it can be configured."""

    made: ClassVar[list["Shaky"]] = []

    def __init__(self) -> None:
        kinds = [how for how, _ in ACTS.values() if how is not sulks] + [talks] * 4
        self.inner = Faulty(Lake(), {"open": breaks, "opening": tuple, "fork": _no_copy})
        self.inner.faults |= {"act": self._anything(kinds), "close": breaks}
        self.inner.chance = 0.06
        self.made.append(self)

    def _anything(self, kinds):
        number = 0

        async def act():
            nonlocal number
            number += 1
            return await kinds[number % len(kinds)]()

        return act

    def __getattr__(self, name):
        return getattr(self.inner, name)

    async def open(self, task, seed):
        return await self.inner.open(task, seed)


def _no_copy(_episode):
    raise OSError("no copy")

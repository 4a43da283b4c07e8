"""An environment that blocks, kept from blocking anything but a thread.

Every call into it runs in a thread of its own, so many episodes are waited for at once, and one
that hangs costs itself alone: its thread is left behind and dies with the program.
"""

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable, Hashable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

from retrograde.data.message import ContextPolicy, Message
from retrograde.data.offer import Offer
from retrograde.data.vocabulary import Vocabulary
from retrograde.environments.protocol import (
    Columned,
    Environment,
    Episode,
    Forking,
    Observation,
    Split,
)

T = TypeVar("T")


async def in_thread(call: Callable[[], Awaitable[T]]) -> T:
    """What a call comes to that is made, and awaited, in a thread of its own."""
    future: Future[T] = Future()

    def work() -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            outcome = asyncio.run(_outcome(call))
            if isinstance(outcome, BaseException):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
        finally:
            if not future.done():
                future.set_exception(RuntimeError("the thread ended without an answer"))

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), daemon=True).start()
    return await asyncio.wrap_future(future)


async def _outcome(call: Callable[[], Awaitable[T]]) -> T | BaseException:
    (outcome,) = await asyncio.gather(_called(call), return_exceptions=True)
    return outcome


async def _called(call: Callable[[], Awaitable[T]]) -> T:
    try:
        return await call()
    except SystemExit as cause:
        raise RuntimeError(f"it asked for the whole program to end: {cause!r}") from cause


class ThreadedEpisode:
    """An episode whose calls run in threads."""

    def __init__(self, inner: Episode, opening: tuple[Message, ...]) -> None:
        """Bind an episode and its opening."""
        self.inner = inner
        self._opening = opening

    def opening(self) -> tuple[Message, ...]:
        """What the policy is shown before its first answer."""
        return self._opening

    async def act(self, text: str) -> Observation:
        """Act, in a thread."""
        return await in_thread(lambda: self.inner.act(text))

    def fork(self, seed: int) -> "ThreadedEpisode":
        """An independent copy; this call is made here, since copying is no waiting."""
        return ThreadedEpisode(self.inner.fork(seed), self._opening)

    def state_key(self) -> Hashable | None:
        """The episode's own."""
        return self.inner.state_key()

    def demonstrate(self, seed: int) -> str:
        """What its teacher says."""
        return self.inner.demonstrate(seed)

    async def close(self) -> None:
        """Close, in a thread."""
        await in_thread(self.inner.close)


@dataclass(frozen=True)
class Threaded:
    """Another environment, called in threads.

    Nothing in an episode may be bound to a thread or to an event loop: each call gets new ones.
    """

    environment: Environment

    @property
    def name(self) -> str:
        """The environment's own."""
        return self.environment.name

    @property
    def forking(self) -> Forking:
        """The environment's own."""
        return self.environment.forking

    @property
    def turn_limit(self) -> int:
        """The environment's own."""
        return self.environment.turn_limit

    @property
    def success_return(self) -> float:
        """The environment's own."""
        return self.environment.success_return

    @property
    def offers(self) -> frozenset[Offer]:
        """The environment's own."""
        return self.environment.offers

    @property
    def context(self) -> ContextPolicy:
        """The environment's own."""
        return self.environment.context

    @property
    def max_new_tokens(self) -> int:
        """The environment's own."""
        return self.environment.max_new_tokens

    @property
    def vocabulary(self) -> Vocabulary | None:
        """The environment's own."""
        return self.environment.vocabulary

    def size(self, split: Split) -> int | None:
        """How many tasks a split has."""
        return self.environment.size(split)

    def task(self, split: Split, index: int) -> str:
        """The task with this index."""
        return self.environment.task(split, index)

    def gold(self, task: str) -> str:
        """The words that end the task rightly."""
        return self.environment.gold(task)

    def columns(self, task: str) -> Mapping[str, object]:
        """What else is known of the task."""
        inner = self.environment
        return inner.columns(task) if isinstance(inner, Columned) else {}

    async def open(self, task: str, seed: int) -> ThreadedEpisode:
        """Start an episode, in a thread."""

        async def opened() -> ThreadedEpisode:
            episode = await self.environment.open(task, seed)
            return ThreadedEpisode(episode, episode.opening())

        return await in_thread(opened)

"""Environments and policies that tests look into, and a way to grow a plan to its end."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from retrograde.backends.chat import TransformersChat
from retrograde.backends.embedded import embedded_tokenizer
from retrograde.data.message import Message
from retrograde.data.seeds import derived
from retrograde.data.tree import End, Group
from retrograde.environments.protocol import Environment, Episode, Forking, Observation
from retrograde.policies.protocol import Answer, Ids, Policy, Sampling
from retrograde.rendering.history import Renderer
from retrograde.rollouts.grow import Grower
from retrograde.rollouts.limits import Limits
from retrograde.rollouts.plans import Plan

Turned = Callable[["WatchedEpisode", str, Observation], Observation]
"""What an observation is turned into."""


@lru_cache(maxsize=1)
def chat() -> TransformersChat:
    """The embedded tokenizer."""
    return TransformersChat(embedded_tokenizer())


def ids(text: str) -> Ids:
    """A finished answer."""
    return (*chat().tokenizer.encode(text, add_special_tokens=False), chat().end_of_turn)


@dataclass
class Book:
    """What became of every episode."""

    begun: int = 0
    closed: Counter[int] = field(default_factory=Counter[int])

    def begin(self) -> int:
        self.begun += 1
        return self.begun

    def check(self) -> None:
        """Every episode was closed, and once."""
        assert self.begun > 0
        assert self.closed == Counter(range(1, self.begun + 1))


@dataclass
class WatchedEpisode:
    """Another environment's episode, booked."""

    inner: Episode
    world: "Watched"
    number: int
    said: tuple[str, ...] = ()

    def opening(self) -> tuple[Message, ...]:
        return self.inner.opening()

    async def act(self, text: str) -> Observation:
        assert not self.world.book.closed[self.number], "acted in after it was closed"
        self.said = (*self.said, text)
        observation = await self.inner.act(text)
        turned = self.world.turned(self, text, observation)
        return await turned if asyncio.iscoroutine(turned) else turned

    def fork(self, seed: int) -> "WatchedEpisode":
        assert self.world.forking is Forking.FORK, "forked, though it cannot be"
        copy = self.inner.fork(seed)
        return WatchedEpisode(copy, self.world, self.world.book.begin(), self.said)

    def state_key(self):
        return self.inner.state_key() if self.world.comparable else None

    def demonstrate(self, seed: int) -> str:
        return self.inner.demonstrate(seed)

    async def close(self) -> None:
        self.world.book.closed[self.number] += 1
        await self.inner.close()


@dataclass
class Watched:
    """Another environment, with its episodes counted and its words open to change."""

    inner: Environment
    turned: Turned = lambda _episode, _text, observation: observation
    forking: Forking = Forking.FORK
    comparable: bool = True
    book: Book = field(default_factory=Book)

    def __getattr__(self, name):
        return getattr(self.inner, name)

    async def open(self, task: str, seed: int) -> WatchedEpisode:
        inner = await self.inner.open(task, seed)
        return WatchedEpisode(inner, self, self.book.begin())


def graded(episode: WatchedEpisode, text: str, observation: Observation) -> Observation:
    """A reward for each turn that depends on the words alone, so that any two answers differ."""
    del episode
    reward = observation.reward + derived("graded", text) % 8 / 8
    return replace(observation, reward=reward)


class SpyPolicy:
    """Notes every context that was asked about, with the answer that was given."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.calls: list[list[tuple[Ids, Answer]]] = []

    @property
    def version(self) -> int:
        return self.policy.version

    async def sample(self, contexts: Sequence[Ids], sampling: Sampling, seed: int) -> list[Answer]:
        answers = await self.policy.sample(contexts, sampling, seed)
        self.calls.append(list(zip(contexts, answers, strict=True)))
        return answers

    async def score(self, contexts: Sequence[Ids], actions: Sequence[Ids]) -> list[list[float]]:
        return await self.policy.score(contexts, actions)

    def given(self) -> Counter[tuple[Ids, Ids]]:
        """Every (context, answer) so far."""
        return Counter((context, answer.ids) for call in self.calls for context, answer in call)


def grower(
    environment, policy, *, max_new_tokens=12, temperature=1.0, rewards=None, **limits
) -> Grower:
    renderer = Renderer(chat(), environment.context)
    sampling = Sampling(temperature, max_new_tokens)
    allowed = Limits(**{"turn_seconds": 5.0, **limits})
    return Grower(environment, renderer, policy, sampling, limits=allowed, rewards=rewards)


async def grown(
    growing: Grower, plan: Plan, tasks: Sequence[str], *, rounds: int | None = None, seed: int = 1
) -> list[Group]:
    """Grow a plan to its end, or for so many rounds."""
    groups = [Group(task) for task in tasks]
    done = 0
    while rounds is None or done < rounds:
        forks = plan(groups, done)
        if not any(forks):
            break
        groups = await growing.grow(groups, forks, done, seed)
        done += 1
    return groups


def ended(groups: Sequence[Group]) -> Counter[End]:
    return Counter(
        tree.turns[leaf].end for group in groups for tree in group.trees for leaf in tree.leaves
    )

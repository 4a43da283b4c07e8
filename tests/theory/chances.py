"""A program that draws, run once for each outcome of its draws, or many times at random.

What such a program returns depends on nothing but its draws, so it is run once for each sequence
of them; what is met again is remembered.
"""

import random
from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Generic, TypeVar

T = TypeVar("T")
Draw = Callable[[Sequence[float]], int]
"""From the weights of what may happen to the number of what does."""
Program = Callable[[Draw], T]


class _Replay:
    """Draws what it was told to, then by `further`; notes all of it."""

    def __init__(self, told: Sequence[int], further: Draw) -> None:
        self.told = told
        self.further = further
        self.taken: list[int] = []
        self.weights: list[tuple[float, ...]] = []

    def __call__(self, weights: Sequence[float]) -> int:
        at = len(self.taken)
        chosen = self.told[at] if at < len(self.told) else self.further(weights)
        self.taken.append(chosen)
        self.weights.append(tuple(weights))
        return chosen


def _least(weights: Sequence[float]) -> int:
    return next(i for i, weight in enumerate(weights) if weight > 0)


def every_outcome(program: Program[T]) -> Iterator[tuple[float, T]]:
    """Each outcome once, with its probability."""
    told: list[int] = []
    while True:
        replay = _Replay(told, _least)
        value = program(replay)
        chance = 1.0
        for taken, weights in zip(replay.taken, replay.weights, strict=True):
            chance *= weights[taken] / sum(weights)
        yield chance, value
        told = replay.taken
        while told:
            weights = replay.weights[len(told) - 1]
            following = range(told[-1] + 1, len(weights))
            if (found := next((i for i in following if weights[i] > 0), None)) is not None:
                told = [*told[:-1], found]
                break
            told = told[:-1]
        if not told:
            return


def estimated_outcomes(program: Program[T], probes: int = 100) -> float:
    """About how many outcomes there are, from a few runs; unbiased.

    Source:
        Knuth 1975, "Estimating the efficiency of backtrack programs".
    """
    rng = random.Random(0)
    total = 0.0
    for _ in range(probes):
        replay = _Replay((), lambda weights: rng.choice([i for i, w in enumerate(weights) if w]))
        program(replay)
        ways = 1.0
        for weights in replay.weights:
            ways *= sum(weight > 0 for weight in weights)
        total += ways
    return total / probes


class _Met(Generic[T]):
    """A draw that was met before, and where each of its outcomes led."""

    __slots__ = ("bounds", "onwards")

    def __init__(self, weights: Sequence[float]) -> None:
        self.bounds = list(accumulate(weights))
        self.onwards: list[_Met[T] | list[T] | None] = [None] * len(weights)


def at_random(program: Program[T], runs: int, seed: int) -> Iterator[T]:
    """Outcomes of independent runs; equal outcomes are one and the same object."""
    rng = random.Random(seed)

    def by_bounds(bounds: Sequence[float]) -> int:
        return min(bisect(bounds, rng.random() * bounds[-1]), len(bounds) - 1)

    def further(weights: Sequence[float]) -> int:
        return by_bounds(list(accumulate(weights)))

    root: _Met[T] | None = None
    for _ in range(runs):
        told: list[int] = []
        node: _Met[T] | list[T] | None = root
        while isinstance(node, _Met):
            told.append(by_bounds(node.bounds))
            node = node.onwards[told[-1]]
        if isinstance(node, list):
            yield node[0]
            continue
        replay = _Replay(told, further)
        value = program(replay)
        root = root or _Met(replay.weights[0])
        met = root
        *inner, last = range(len(replay.taken))
        for at in inner:
            following = met.onwards[replay.taken[at]]
            if not isinstance(following, _Met):
                following = _Met(replay.weights[at + 1])
                met.onwards[replay.taken[at]] = following
            met = following
        met.onwards[replay.taken[last]] = [value]
        yield value

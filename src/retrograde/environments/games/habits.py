"""How the opponents at rock, paper, scissors play: habits that can be found out.

A habit is split in two: what it remembers of the rounds so far, and how it plays on that. What it
remembers is its whole state, so that it can be compared.
"""

import itertools
import random
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Self

from retrograde.data.seeds import derived
from retrograde.environments.protocol import Split

MOVES = ("rock", "paper", "scissors")
"""Each beats the one before it, and rock beats scissors."""
COUNT = len(MOVES)
EVEN = (1, 1, 1)
NOISES = (0.0, 0.1, 0.2)
"""How often an opponent forgets its habit and plays at random."""

Disjoint = Literal["kinds", "parameters"]
Weights = tuple[int, ...]
"""How likely each move is, as odds."""


class Round(NamedTuple):
    """Two moves made at once, as places in `MOVES`."""

    own: int
    """The policy's."""
    theirs: int
    """The opponent's."""


History = tuple[Round, ...]
Numbers = tuple[int, ...]


def result(own: int, theirs: int) -> int:
    """1 for a win, 0 for a draw, -1 for a loss, of the first move against the second."""
    return (0, 1, -1)[(own - theirs) % COUNT]


def only(move: int) -> Weights:
    """The odds of a move that is certain."""
    return tuple(int(m == move % COUNT) for m in range(COUNT))


class Habit(NamedTuple):
    """One way to play."""

    drawn: Callable[[random.Random], Numbers]
    """Draws the habit's parameters."""
    memory: Callable[[Numbers, History], Any]
    """All that the habit remembers; what it will remember after a round follows from it."""
    odds: Callable[[Numbers, Any], Weights]
    """How likely each next move is."""


def _none(chance: random.Random) -> Numbers:  # noqa: ARG001 - there is nothing to draw
    return ()


def _shift(chance: random.Random) -> Numbers:
    return (chance.randrange(COUNT),)


def _shifts(chance: random.Random) -> Numbers:
    """After a draw, after a loss: the second one always moves on."""
    return chance.randrange(COUNT), chance.randrange(1, COUNT)


def _leaning(chance: random.Random) -> Numbers:
    return tuple(chance.sample((chance.choice((4, 6, 8)), 1, 1), COUNT))


def _nothing(numbers: Numbers, history: History) -> Any:  # noqa: ARG001 - it remembers nothing
    return None


def _bet(numbers: Numbers, memory: Any) -> Weights:  # noqa: ARG001 - whatever happened
    return numbers


def _pattern(lengths: tuple[int, ...]) -> Callable[[random.Random], Numbers]:
    def drawn(chance: random.Random) -> Numbers:
        length = chance.choice(lengths)
        while True:
            moves = tuple(chance.randrange(COUNT) for _ in range(length))
            if all(moves != moves[p:] + moves[:p] for p in range(1, length)):
                return moves

    return drawn


def _place(numbers: Numbers, history: History) -> int:
    return len(history) % len(numbers)


def _cycled(numbers: Numbers, place: int) -> Weights:
    return only(numbers[place])


def _last_own(back: int) -> Callable[[Numbers, History], Any]:
    return lambda _, history: tuple(r.own for r in history[-back:])


def _reacted(back: int) -> Callable[[Numbers, Any], Weights]:
    """To the policy's move so many rounds ago, moved on by a number."""
    return lambda numbers, moves: EVEN if len(moves) < back else only(moves[0] + numbers[0])


def _last(_: Numbers, history: History) -> Any:
    return history[-1] if history else None


def _stayed(numbers: Numbers, last: Round | None) -> Weights:
    """Wins: the same again. Draws and losses: moved on by a number each."""
    if last is None:
        return EVEN
    moved = {1: 0, 0: numbers[0], -1: numbers[1]}[result(last.theirs, last.own)]
    return only(last.theirs + moved)


def _turned(numbers: Numbers, last: Round | None) -> Weights:
    """Losses: the same again. Draws and wins: moved on by a number each."""
    if last is None:
        return EVEN
    moved = {-1: 0, 0: numbers[0], 1: numbers[1]}[result(last.theirs, last.own)]
    return only(last.theirs + moved)


def _summed(numbers: Numbers, last: Round | None) -> Weights:
    return EVEN if last is None else only(last.own + last.theirs + numbers[0])


def _counted(_: Numbers, history: History) -> Numbers:
    counts = Counter(r.own for r in history)
    return tuple(counts[m] for m in range(COUNT))


def _beaten(_: Numbers, counts: Numbers) -> Weights:
    """What beats the most frequent of the policy's moves; at random among equals."""
    most = max(counts)
    return tuple(int(counts[m - 1] == most) for m in range(COUNT))


def _window_beaten(_: Numbers, moves: Numbers) -> Weights:
    return _beaten((), tuple(moves.count(m) for m in range(COUNT)))


def _followed(order: int) -> Callable[[Numbers, History], Any]:
    """How often each move followed each run of so many of the policy's, and the latest run."""

    def memory(_: Numbers, history: History) -> Any:
        own = [r.own for r in history]
        runs = zip(*(own[i:] for i in range(order + 1)), strict=False)
        latest = tuple(own[-order:])
        return tuple(sorted(Counter(runs).items())), latest

    return memory


def _foreseen(_: Numbers, memory: Any) -> Weights:
    counts, latest = memory
    after = {run[-1]: times for run, times in counts if run[:-1] == latest}
    return _beaten((), tuple(after.get(m, 0) for m in range(COUNT)))


TRAIN_HABITS: Mapping[str, Habit] = MappingProxyType(
    {
        "leaning": Habit(_leaning, _nothing, _bet),
        "short_cycle": Habit(_pattern((2, 3)), _place, _cycled),
        "reaction": Habit(_shift, _last_own(1), _reacted(1)),
        "win_stay": Habit(_shifts, _last, _stayed),
        "frequency": Habit(_none, _counted, _beaten),
        "markov_1": Habit(_none, _followed(1), _foreseen),
    }
)
"""Bets on one move; repeats two or three; answers the last move; stays while it wins; beats what
is played most; beats what mostly follows the last move."""
TEST_HABITS: Mapping[str, Habit] = MappingProxyType(
    {
        "long_cycle": Habit(_pattern((4, 5)), _place, _cycled),
        "delayed_reaction": Habit(_shift, _last_own(2), _reacted(2)),
        "win_shift": Habit(_shifts, _last, _turned),
        "sum": Habit(_shift, _last, _summed),
        "recent_frequency": Habit(_none, _last_own(3), _window_beaten),
        "markov_2": Habit(_none, _followed(2), _foreseen),
    }
)
"""Repeats four or five moves; answers the last move but one; stays while it loses; adds both last
moves; beats what was played most of the last three; beats what mostly follows the last two."""
HABITS = TRAIN_HABITS | TEST_HABITS


@dataclass(frozen=True, slots=True)
class Opponent:
    """A habit with its parameters."""

    kind: str
    """Its name in `HABITS`."""
    numbers: Numbers
    noise: float
    """How often it plays at random instead."""

    @classmethod
    def of(cls, split: Split, index: int, disjoint: Disjoint) -> Self:
        """The opponent of a task."""
        kinds = {"train": TRAIN_HABITS, "test": TEST_HABITS}[split]
        known = tuple(kinds if disjoint == "kinds" else HABITS)
        drawn = (
            cls._drawn(derived("rock_paper_scissors", disjoint, split, index, attempt), known)
            for attempt in itertools.count()
        )
        return next(one for one in drawn if disjoint == "kinds" or one.split == split)

    @classmethod
    def _drawn(cls, seed: int, known: tuple[str, ...]) -> Self:
        chance = random.Random(seed)
        kind = chance.choice(known)
        return cls(kind, HABITS[kind].drawn(chance), chance.choice(NOISES))

    @property
    def split(self) -> Split:
        """Where it belongs if parameters are what keeps the splits apart: a hash of them."""
        return "test" if derived(self.kind, *self.numbers, str(self.noise)) % 2 else "train"

    def memory(self, history: History) -> Hashable:
        """All of the rounds so far that matters to it."""
        return HABITS[self.kind].memory(self.numbers, history)

    def chances(self, history: History) -> tuple[float, ...]:
        """The probability of each next move."""
        odds = HABITS[self.kind].odds(self.numbers, self.memory(history))
        return tuple(self.noise / COUNT + (1 - self.noise) * each / sum(odds) for each in odds)

    def move(self, history: History, seed: int) -> int:
        """Its next move; chance comes from the seed alone."""
        return random.Random(seed).choices(range(COUNT), self.chances(history))[0]

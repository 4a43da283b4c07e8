"""How the opponents at limit hold'em play: styles that can be found out."""

import itertools
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Self

from retrograde.data.seeds import derived
from retrograde.environments.games.table import View
from retrograde.environments.protocol import Split

RANKS = "23456789TJQKA"
FLUSH = 5
Style = Callable[[View, tuple[float, ...], random.Random], str]
"""From what is seen, parameters and chance to an action that may be illegal: see `_legal`."""


def strength(view: View) -> float:
    """How good a hand looks, from 0 to 1: rough, and quick."""
    high, low = sorted((RANKS.index(card[0]) for card in view.cards), reverse=True)
    suited = view.cards[0][1] == view.cards[1][1]
    if not view.board:
        if high == low:
            return 0.55 + 0.45 * high / 12
        return 0.6 * (high + low) / 24 + 0.06 * suited + 0.04 * (high - low == 1)
    return _made(view, high, low)


def _made(view: View, high: int, low: int) -> float:
    """By the best that the player's own cards make with the board."""
    everything = view.cards + view.board
    board = sorted((RANKS.index(card[0]) for card in view.board), reverse=True)
    counts = Counter(RANKS.index(card[0]) for card in everything)
    suits = Counter(card[1] for card in everything)
    most_suited = max(suits[card[1]] for card in view.cards)
    if most_suited >= FLUSH or _straight(counts) > _straight(Counter(board)):
        return 0.95
    matched = [counts[rank] for rank in {high, low}]
    if max(matched) > 2:  # noqa: PLR2004 - three of a kind
        return 0.9
    paired = sorted((rank for rank in {high, low} if counts[rank] == 2), reverse=True)  # noqa: PLR2004
    if len(paired) == 2:  # noqa: PLR2004 - two pairs, each with one of the player's cards
        return 0.85
    if paired:
        return 0.7 if paired[0] >= board[0] else 0.5
    draws = most_suited == FLUSH - 1 and len(view.board) < 5  # noqa: PLR2004 - before the river
    return 0.45 if draws else 0.3 * high / 12


def _straight(counts: Mapping[int, int]) -> int:
    """Longest run of ranks, if it is a straight; the ace is also below the two."""
    present = [counts.get(12, 0) > 0, *(counts.get(rank, 0) > 0 for rank in range(13))]
    runs = [len(list(run)) for there, run in itertools.groupby(present) if there]
    return max((run for run in runs if run >= FLUSH), default=0)


def _by_strength(view: View, numbers: tuple[float, ...], chance: random.Random) -> str:
    fold_below, raise_above, bluff = numbers
    held = strength(view)
    if held >= raise_above or chance.random() < bluff:
        return "raise"
    return "fold" if held < fold_below else "call"


def _call(view: View, numbers: tuple[float, ...], chance: random.Random) -> str:  # noqa: ARG001
    return "call"


def _coin(view: View, numbers: tuple[float, ...], chance: random.Random) -> str:  # noqa: ARG001
    """Raises so often, whatever it holds."""
    return "raise" if chance.random() < numbers[0] else "call"


def _anything(view: View, numbers: tuple[float, ...], chance: random.Random) -> str:  # noqa: ARG001
    return chance.choice(view.legal)


def _early(view: View, numbers: tuple[float, ...], chance: random.Random) -> str:
    """Bets before the turn card whatever it holds, and gives up after unless it holds a pair."""
    if view.street in ("preflop", "flop"):
        return "raise" if chance.random() < numbers[0] else "call"
    return "call" if strength(view) >= 0.5 else "fold"  # noqa: PLR2004 - a pair


def _trap(view: View, numbers: tuple[float, ...], chance: random.Random) -> str:  # noqa: ARG001
    """Never raises before the turn card; then raises with a good hand."""
    held = strength(view)
    if view.street in ("turn", "river") and held >= numbers[0]:
        return "raise"
    return "fold" if held < 0.2 else "call"  # noqa: PLR2004 - nothing at all


def _polar(view: View, numbers: tuple[float, ...], chance: random.Random) -> str:
    """Raises with the best and, at times, with the worst."""
    held = strength(view)
    bluffs = held < 0.25 and chance.random() < numbers[0]  # noqa: PLR2004 - nothing at all
    return "raise" if bluffs or held >= 0.85 else "call"  # noqa: PLR2004 - two pairs


def _rlcard(view: View, numbers: tuple[float, ...], chance: random.Random) -> str:  # noqa: ARG001
    """What the rule model that rlcard ships does, without all that importing it brings along.

    Source: `rlcard.models.limitholdem_rule_models.LimitholdemRuleAgentV1` of rlcard 1.2.
    """
    action = _rlcard_rule(view)
    if action in view.legal:
        return action
    return {"raise": "call", "check": "fold", "call": "raise"}[action]


def _rlcard_rule(view: View) -> str:
    ranks = {card[0] for card in view.cards}
    board = {card[0] for card in view.board}
    if len(ranks) == 1:
        return "raise" if not board or ranks & board else "fold"
    if "A" in ranks:
        if ranks & set("KQJT"):
            return "raise" if not board or board & set("AKQJT") else "fold"
        suits = {card[1] for card in view.cards}
        suited = len(suits) == 1 and (not board or suits & {card[1] for card in view.board})
        return "raise" if suited else "fold"
    if not board:
        return "raise" if ranks <= set("KQJT") else "fold"
    if board <= set("2345"):
        return "check" if view.street == "flop" else "fold"
    return "call"


@dataclass(frozen=True, slots=True)
class Way:
    """A style and the ranges that its parameters are drawn from."""

    style: Style
    ranges: tuple[tuple[float, float], ...] = ()


TRAIN_WAYS: Mapping[str, Way] = MappingProxyType(
    {
        "calling": Way(_call),
        "coin": Way(_coin, ((0.2, 0.8),)),
        "anything": Way(_anything),
        "tight_passive": Way(_by_strength, ((0.35, 0.5), (0.85, 0.95), (0.0, 0.0))),
        "tight_aggressive": Way(_by_strength, ((0.3, 0.45), (0.5, 0.7), (0.0, 0.1))),
        "loose_passive": Way(_by_strength, ((0.05, 0.2), (0.85, 0.95), (0.0, 0.0))),
    }
)
"""Always calls; tosses a coin to raise; does anything; and by the strength of its hand: folds
much and raises little, folds much and raises much, folds little and raises little."""
TEST_WAYS: Mapping[str, Way] = MappingProxyType(
    {
        "loose_aggressive": Way(_by_strength, ((0.05, 0.2), (0.35, 0.5), (0.15, 0.3))),
        "early": Way(_early, ((0.6, 1.0),)),
        "trap": Way(_trap, ((0.5, 0.7),)),
        "polar": Way(_polar, ((0.4, 0.8),)),
        "rlcard_rule": Way(_rlcard),
    }
)
"""Folds little and raises much; bets early and gives up; lies in wait; raises with the best and
the worst; and the rule model that rlcard ships."""
WAYS = TRAIN_WAYS | TEST_WAYS


@dataclass(frozen=True, slots=True)
class Bettor:
    """A player with a style of its own."""

    kind: str
    """Its name in `WAYS`."""
    numbers: tuple[float, ...] = ()

    @classmethod
    def of(cls, split: Split, index: int) -> Self:
        """The opponent of a deal: in training and in test they are of different kinds."""
        ways = {"train": TRAIN_WAYS, "test": TEST_WAYS}[split]
        chance = random.Random(derived("limit_holdem", "opponent", split, index))
        kind = chance.choice(tuple(ways))
        return cls(kind, tuple(chance.uniform(*ends) for ends in ways[kind].ranges))

    def __call__(self, view: View, chance: random.Random) -> str:
        """A legal action."""
        return legal_one(WAYS[self.kind].style(view, self.numbers, chance), view.legal)


def legal_one(action: str, legal: tuple[str, ...]) -> str:
    """What comes nearest: nobody folds for nothing, and who may not raise calls or checks."""
    if action == "fold" and "check" in legal:
        return "check"
    if action in legal:
        return action
    return "call" if "call" in legal else "check"

"""Players of limit hold'em against each other, each deal from both seats."""

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean, stdev

from retrograde.data.seeds import derived
from retrograde.environments.games.bettors import legal_one
from retrograde.environments.games.elo import Game, Rating, elo
from retrograde.environments.games.table import Table, View

Player = Callable[[View, random.Random], str]
"""From what is seen and chance to an action; a `Bettor` is one."""
WIDE = 1.96
"""Standard errors on either side of a mean that hold 95% of a normal law."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How a player did."""

    big_blinds: float
    """Mean payoff of a hand."""
    low: float
    """Ends of its 95% interval, over deals."""
    high: float
    rating: Rating


def hand(players: tuple[Player, Player], deal: int, seed: int) -> tuple[float, float]:
    """What both win in one hand, in big blinds.

    Args:
        players: who sits in seat 0 and in seat 1.
        deal: seed of all cards and of who has the small blind.
        seed: of what the players draw.
    """
    table = Table.dealt(deal)
    while not table.over:
        place = table.turn
        chance = random.Random(derived(seed, place, len(table.said)))
        view = table.view(place)
        table.act(legal_one(players[place](view, chance), view.legal))
    return table.payoff(0), table.payoff(1)


def duplicate(first: Player, second: Player, deal: int, seed: int) -> float:
    """What the first wins a hand, in big blinds, when a deal is played from both seats."""
    there = hand((first, second), deal, derived(seed, "there"))[0]
    back = hand((second, first), deal, derived(seed, "back"))[1]
    return (there + back) / 2


def tournament(
    players: Mapping[str, Player], *, deals: int = 100, seed: int = 0
) -> dict[str, Standing]:
    """Everyone against everyone else on the same deals, each from both seats.

    A deal is one game of the ratings: won by who is ahead over both seats.

    Raises:
        ValueError: there are fewer than two players or two deals.
    """
    if len(players) < 2 or deals < 2:  # noqa: PLR2004 - nobody plays alone
        raise ValueError(
            f"tournament: at least 2 players and 2 deals are needed, got {len(players)} and {deals}"
        )
    games: list[Game] = []
    payoffs: dict[str, list[list[float]]] = {name: [[] for _ in range(deals)] for name in players}
    for one, other in combinations(players, 2):
        for number in range(deals):
            cards = derived("tournament", seed, number)
            chance = derived("tournament", seed, one, other, number)
            won = duplicate(players[one], players[other], cards, chance)
            payoffs[one][number].append(won)
            payoffs[other][number].append(-won)
            games.append(Game(one, other, 0.5 if won == 0 else float(won > 0)))
    rated = elo(games, seed=seed)
    return {name: _standing(payoffs[name], rated[name]) for name in players}


def _standing(payoffs: list[list[float]], rating: Rating) -> Standing:
    """Over deals, since what a player wins in one deal depends on its cards, whoever it plays."""
    means = [fmean(won) for won in payoffs]
    mean, wide = fmean(means), WIDE * stdev(means) / math.sqrt(len(means))
    return Standing(mean, mean - wide, mean + wide, rating)

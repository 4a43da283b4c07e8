"""Elo ratings by maximum likelihood, with bootstrap intervals.

The chance that one player beats another is 1 / (1 + 10 ** ((other - own) / 400)), a draw is half
a win and half a loss, and the mean of all ratings is 1500.

Source: Bradley and Terry (1952); MemoPilot (2606.08656) rates memory methods so.
Differs from the source: that paper does not say how it fits, anchors or resamples; this is ours.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

ANCHOR, SCALE = 1500.0, 400 / math.log(10)
STEPS, LONGEST_STEP, NEAR = 200, 2.0, 1e-10


class Game(NamedTuple):
    """One game between two players."""

    first: str
    second: str
    score: float
    """Of the first: 1 for a win, 0.5 for a draw, 0 for a loss."""


@dataclass(frozen=True, slots=True)
class Rating:
    """How strong a player is."""

    value: float
    low: float
    """Lower end of the interval."""
    high: float
    games: int


def ratings(games: Sequence[Game], prior: float = 0.0) -> dict[str, float]:
    """The ratings under which these games are likeliest.

    Args:
        games: what was played.
        prior: draws that each two players who met are given on top. With 0, a player who never
            lost to, or never scored against, some group of the others has no finite rating.

    Raises:
        ValueError: a score is not in [0, 1], or some players have no finite rating.
    """
    names = sorted({name for game in games for name in game[:2]})
    won = _won(games, {name: i for i, name in enumerate(names)}, prior)
    _check_finite(won, names)
    values = ANCHOR + SCALE * _fitted(won)
    return dict(zip(names, values.tolist(), strict=True))


def elo(
    games: Sequence[Game],
    *,
    resamples: int = 500,
    level: float = 0.95,
    prior: float = 1.0,
    seed: int = 0,
) -> dict[str, Rating]:
    """Ratings with intervals from drawing the games anew, with replacement.

    Args:
        games: what was played; two games on one deal with seats swapped are best made one.
        resamples: how often the games are drawn anew.
        level: share of the drawn ratings that lie inside the interval.
        prior: as in `ratings`; above 0, so that every set of drawn games has ratings.
        seed: of the draws.

    Raises:
        ValueError: an option is out of range, or a score is not in [0, 1].
    """
    if not 0 < level < 1 or resamples < 1 or prior <= 0:
        raise ValueError(
            f"elo: level in (0, 1), resamples >= 1 and prior > 0 are needed, got level {level}, "
            f"resamples {resamples}, prior {prior}"
        )
    best = ratings(games, prior)
    places = {name: i for i, name in enumerate(best)}
    unplayed = [
        Game(one, other, 0.5) for one, other in {(min(game[:2]), max(game[:2])) for game in games}
    ]
    chance = random.Random(seed)
    drawn: list[list[float]] = []
    for _ in range(resamples):
        again = chance.choices(games, k=len(games))
        # Each two players who met keep the prior's draw, even if none of their games is drawn.
        won = _won(again, places, 0.0) + _won(unplayed, places, 0.0) * prior
        drawn.append((ANCHOR + SCALE * _fitted(won)).tolist())
    ends = np.quantile(np.array(drawn), [(1 - level) / 2, (1 + level) / 2], axis=0).tolist()
    return {
        name: Rating(value, ends[0][i], ends[1][i], sum(name in game[:2] for game in games))
        for i, (name, value) in enumerate(best.items())
    }


def _won(games: Sequence[Game], places: dict[str, int], prior: float) -> NDArray[np.float64]:
    """How much each player, by row, has won from each other, by column."""
    won = np.zeros((len(places), len(places)))
    for first, second, score in games:
        if not 0 <= score <= 1:
            raise ValueError(f"score: a number in [0, 1] is needed, got {score}")
        if first == second:
            raise ValueError(f"{first} played against itself: such games say nothing")
        won[places[first], places[second]] += score
        won[places[second], places[first]] += 1 - score
    return won + prior / 2 * (won + won.T > 0)


def _check_finite(won: NDArray[np.float64], names: Sequence[str]) -> None:
    """Every group of players has to have won something from the others (Ford, 1957)."""
    reaches = np.eye(len(names), dtype=bool) | (won > 0)
    for _ in names:
        reaches = reaches @ reaches
    if not reaches.all():
        row, column = (int(places[0]) for places in np.nonzero(~reaches))
        raise ValueError(
            f"no finite ratings: {names[row]} never scored, not even through others, against "
            f"{names[column]}; give a prior above 0"
        )


def _fitted(won: NDArray[np.float64]) -> NDArray[np.float64]:
    """Strengths on the logistic scale, mean 0, by Newton's method with steps that are kept short.

    The likelihood is concave, so there is one best answer.
    """
    count, played = len(won), won + won.T
    strength: NDArray[np.float64] = np.zeros(count)
    for _ in range(STEPS):
        expected = 1 / (1 + np.exp(strength[None, :] - strength[:, None]))
        slope = (won - played * expected).sum(axis=1)
        weights = played * expected * (1 - expected)
        bend = np.diag(weights.sum(axis=1)) - weights
        # What is added holds the mean still, which nothing else does.
        step = cast("NDArray[np.float64]", np.linalg.solve(bend + 1 / count, slope))
        longest = float(np.abs(step).max())
        strength = strength + step * min(1.0, LONGEST_STEP / max(longest, NEAR))
        if longest < NEAR:
            break
    return strength - float(strength.mean())

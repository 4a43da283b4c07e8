"""Ratings: numbers worked by hand, laws, and what cannot be rated."""

import math

import pytest

from retrograde.environments.games.elo import Game, elo, ratings


def games(first, second, wins, losses, draws=0):
    return [
        *[Game(first, second, 1.0)] * wins,
        *[Game(first, second, 0.0)] * losses,
        *[Game(first, second, 0.5)] * draws,
    ]


def test_three_wins_in_four_are_190_8_points():
    # 0.75 = 1 / (1 + 10 ** (-d / 400)): d = 400 log10(3) = 190.85, half on either side of 1500.
    rated = ratings(games("a", "b", 75, 25))
    assert rated["a"] - rated["b"] == pytest.approx(190.848, abs=1e-3)
    assert sum(rated.values()) == pytest.approx(3000)


def test_a_draw_is_half_a_win():
    # 50 wins, 50 draws: 75 of 100 again.
    drawn = ratings(games("a", "b", 50, 0, draws=50))
    assert drawn == pytest.approx(ratings(games("a", "b", 75, 25)))
    assert ratings(games("a", "b", 0, 0, draws=3)) == pytest.approx({"a": 1500, "b": 1500})


def test_three_players_in_a_row():
    # a beats b 3 in 4 and b beats c 3 in 4, and each is 190.85 above the next: the likeliest
    # ratings give exactly what was seen, whatever the other pair did not play.
    rated = ratings(games("a", "b", 30, 10) + games("b", "c", 30, 10))
    step = 400 * math.log10(3)
    assert rated == pytest.approx({"a": 1500 + step, "b": 1500, "c": 1500 - step}, abs=1e-6)


def test_a_prior_is_a_draw_of_each_pair():
    # One win and one draw of the prior: 1.5 of 2, 75% once more.
    rated = ratings(games("a", "b", 1, 0), prior=1.0)
    assert rated["a"] - rated["b"] == pytest.approx(190.848, abs=1e-3)


def test_who_cannot_be_rated_is_named():
    with pytest.raises(ValueError, match="b never scored, not even through others, against a"):
        ratings(games("a", "b", 5, 0))
    with pytest.raises(ValueError, match="never scored"):  # two groups that never met
        ratings(games("a", "b", 1, 1) + games("c", "d", 1, 1))
    with pytest.raises(ValueError, match=r"score: a number in \[0, 1\] is needed, got 2"):
        ratings([Game("a", "b", 2)])
    with pytest.raises(ValueError, match="a played against itself"):
        ratings([Game("a", "a", 1)])
    with pytest.raises(ValueError, match="prior > 0"):
        elo(games("a", "b", 1, 1), prior=0.0)


@pytest.mark.parametrize(
    ("won", "holds"), [(62, False), (69, True), (75, True), (81, True), (88, False)]
)
def test_intervals_hold_the_truth_unless_the_games_went_far_astray(won, holds):
    # Of 100 games at 0.75, the wins have a standard deviation of 4.33: 1.4 of them is inside a 95%
    # interval, 3 of them is outside.
    rating = elo(games("a", "b", won, 100 - won), resamples=200)["a"]
    assert (rating.low <= 1500 + 95.424 <= rating.high) == holds


def test_more_games_narrow_the_interval_and_the_seed_decides_the_draws():
    few, many = (elo(games("a", "b", 6 * n, 4 * n), resamples=200)["a"] for n in (2, 50))
    assert many.high - many.low < (few.high - few.low) / 2
    assert (few.games, many.games) == (20, 500)
    again = elo(games("a", "b", 12, 8), resamples=200)["a"]
    other = elo(games("a", "b", 12, 8), resamples=200, seed=1)["a"]
    assert few == again
    assert (few.low, few.high) != (other.low, other.high)
    assert few.low < few.value < few.high

"""LEAP, arXiv:2608.01804: ranks and turn credit, worked by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.golden.told import chain, judged, near, scored

from retrograde.algorithms.fit import obstacles
from retrograde.algorithms.leap import leap
from retrograde.credit.first_success import FirstSuccess
from retrograde.data.offer import Offer
from retrograde.data.tree import End
from retrograde.environments.hop import Hop
from retrograde.losses.policy import Mean
from retrograde.rollouts.adaptive_turns import AdaptiveTurns

F = math.inf
FLAT = FirstSuccess(gamma=1.0)


def solved_at(t, most=3):
    """A rollout that first succeeds at turn t, counted from 1; F never does."""
    return scored(*(0.0,) * (t - 1), 1.0) if t < F else scored(*(0.0,) * most)


def ranks(*turns):
    return [each[0] for each in judged(FLAT, *map(solved_at, turns))]


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        # Seven at once, one at the second try: 1 / 7 each, and -7 / 7, the worst there is.
        ([1] * 7 + [2], [0.1429] * 7 + [-1.0]),
        # One mended among failures: 7 / 7, and -1 / 7 each.
        ([F] * 7 + [2], [-0.1429] * 7 + [1.0]),
        # 7 / 7; 6 - 1 of 7; -2 / 7.
        ([1, 2] + [F] * 6, [1.0, 0.7143] + [-0.2857] * 6),
        # 6 / 7 twice; 4 - 2; 3 - 4; -5.
        ([1, 1, 2, 2, 3, F, F, F], [0.8571] * 2 + [0.2857] * 2 + [-0.1429] + [-0.7143] * 3),
        ([1] * 8, [0.0] * 8),
        ([2] * 8, [0.0] * 8),
        ([F] * 8, [0.0] * 8),
    ],
)
def test_ranks(turns, expected):
    assert ranks(*turns) == pytest.approx(expected, abs=1e-4)


@given(st.lists(st.sampled_from([1, 2, 3, F]), min_size=2, max_size=9))
def test_ranks_add_up_to_nothing(turns):
    assert sum(ranks(*turns)) == pytest.approx(0.0, abs=1e-9)


def test_what_led_to_a_success_gets_less_than_the_success():
    # Solved at the third try, the other two never: R = 2 / 2 = 1, and 1/4, 1/2, 1 with gamma 1/2.
    # The failures have -1/2 at each of their turns.
    assert judged(FirstSuccess(), *map(solved_at, (3, F, F))) == [
        [0.25, 0.5, 1.0], [-0.5] * 3, [-0.5] * 3,
    ]  # fmt: skip


def test_a_negative_rank_holds_for_all_turns_also_of_a_late_success():
    # Three at once, one at the second try: -3 / 3, undiscounted.
    assert judged(FirstSuccess(), *map(solved_at, (1, 1, 1, 2)))[3] == [-1.0, -1.0]


def test_ranks_are_not_normalised_again():
    # As z-scores (population) 1/7 and -1 would be .378 and -2.646.
    assert ranks(*[1] * 7, 2)[7] == -1.0


def test_almost_right_is_not_right_and_turns_are_not_ranked_by_score():
    assert ranks(F, F) == [0.0, 0.0]
    assert judged(FLAT, scored(0.9), scored(0.1)) == [[0.0], [0.0]]


def test_a_further_try_is_no_further_member_of_the_group():
    # Two rollouts, three turns: 1 / (2 - 1), and not 1 / (3 - 1).
    assert judged(FLAT, solved_at(1), solved_at(F, most=2)) == [[1.0], [-1.0, -1.0]]


def test_what_comes_after_a_success_does_not_train():
    assert judged(FLAT, scored(1.0, 0.0), scored(0.0)) == [[1.0, None], [-1.0]]


def test_failed_rollouts_take_no_part():
    broken = chain(0.0, scores=(None,), end=End.FAILED)
    assert judged(FLAT, solved_at(1), broken) == [[0.0], [None]]
    assert judged(FLAT, solved_at(1), solved_at(F, 1), broken) == near([[1.0], [-1.0], [None]])


def test_the_algorithm():
    algorithm = leap(rollouts=4, turns=2, least_failing=1, most_failing=4, gamma=0.25)
    assert algorithm == leap(rollouts=4, turns=2, least_failing=1, most_failing=4, gamma=0.25)
    assert algorithm.grow == AdaptiveTurns(4, 2, 1, 4)
    assert algorithm.credit == FirstSuccess(0.25)
    assert algorithm.loss.mean is Mean.TOKEN
    assert algorithm.needs == (Offer.ATTEMPTS, Offer.SCORES)
    (said,) = obstacles(leap(), Hop())
    assert "every turn is a try at the whole task" in said


def test_bad_options_are_refused():
    with pytest.raises(ValueError, match=r"gamma: .* got 1\.5"):
        leap(gamma=1.5)
    with pytest.raises(ValueError, match="least_failing, most_failing"):
        leap(least_failing=9)

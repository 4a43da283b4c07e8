"""RLOO, arXiv:2402.14740, section 3: each rollout against the others, worked by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrograde.algorithms.rloo import rloo
from retrograde.data.tree import End

from .chains import advantages, gradient, rollout

GROUP = rollout(0.0, 1.0, tokens=(2, 1)), rollout(0.0), rollout(0.0, tokens=2)


def test_three_rollouts():
    # Returns 1, 0, 0: the means of the others are 0, 1/2, 1/2.
    assert advantages(rloo(), *GROUP) == pytest.approx([1.0, 1.0, -0.5, -0.5])


@given(st.lists(st.floats(-2, 2), min_size=2, max_size=6))
def test_it_is_the_return_less_the_mean_of_the_others(returns):
    expected = [
        own - (sum(returns[:i]) + sum(returns[i + 1 :])) / (len(returns) - 1)
        for i, own in enumerate(returns)
    ]
    found = advantages(rloo(), *(rollout(value) for value in returns))
    assert found == pytest.approx(expected, abs=1e-9)


def test_a_failed_rollout_is_no_other():
    lost = rollout(0.0, end=End.FAILED)
    assert advantages(rloo(), *GROUP, lost) == pytest.approx([1.0, 1.0, -0.5, -0.5])


def test_equal_returns_and_a_single_one_give_exactly_nothing():
    assert advantages(rloo(), rollout(0.1, 0.2), rollout(0.3)) == [0.0, 0.0, 0.0]
    assert advantages(rloo(), rollout(1.0)) == [0.0]


def test_the_papers_gradient_knows_neither_ratio_nor_length():
    # A / 3 at each token.
    ratios = [2.0, 0.1, 1.0, 5.0, 1.0, 1.0]
    expected = [-1 / 3] * 3 + [1 / 6] * 3
    assert gradient(rloo(), GROUP, ratios=ratios) == pytest.approx(expected)


def test_with_a_clip_it_is_verls():
    # A ratio / 6 at each token; 2 is above 1.2 under a positive advantage and gives none,
    # .5 is below .8 under a negative one and gives none.
    ratios = [2.0, 0.5, 1.0, 1.1, 0.5, 1.0]
    expected = [0.0, -0.5 / 6, -1 / 6, 0.55 / 6, 0.0, 0.5 / 6]
    assert gradient(rloo(clip=0.2), GROUP, ratios=ratios) == pytest.approx(expected)


def test_equal_arguments_give_equal_algorithms():
    assert rloo(clip=0.2) == rloo(clip=0.2) != rloo()
    with pytest.raises(ValueError, match="rollouts: at least 2"):
        rloo(rollouts=1)

"""Dr. GRPO, arXiv:2503.20783, section 3.2: no standard deviation, no length, worked by hand."""

import pytest

from retrograde.algorithms.dr_grpo import dr_grpo

from .chains import advantages, gradient, rollout

GROUP = rollout(0.0, 1.0, tokens=(2, 2)), rollout(0.0)


def test_the_return_less_the_mean():
    assert advantages(dr_grpo(), *GROUP) == [0.5, 0.5, -0.5]
    # Twice the returns, twice the advantage: nothing is divided by their spread.
    assert advantages(dr_grpo(), rollout(2.0), rollout(0.0)) == [1.0, -1.0]
    assert advantages(dr_grpo(), rollout(0.1, 0.2), rollout(0.3)) == [0.0, 0.0, 0.0]


def test_every_token_counts_the_same_in_a_long_rollout_and_in_a_short_one():
    # A / (10 * 2 rollouts). With a rollout's own length the long one's were a quarter of that.
    assert gradient(dr_grpo(length=10.0), GROUP) == pytest.approx([-0.025] * 4 + [0.025])


def test_the_divisor_is_a_constant():
    # Longer rollouts beside it change nothing for the tokens of the first.
    longer = GROUP[0], rollout(0.0, tokens=50)
    assert gradient(dr_grpo(), longer)[:4] == pytest.approx(gradient(dr_grpo(), GROUP)[:4])


def test_ratios_are_clipped():
    ratios = [1.5, 1.1, 1.0, 0.5, 0.5]
    expected = [0.0, -0.275, -0.25, -0.125, 0.0]
    assert gradient(dr_grpo(length=1.0), GROUP, ratios=ratios) == pytest.approx(expected)


def test_equal_arguments_give_equal_algorithms():
    assert dr_grpo(length=100.0) == dr_grpo(length=100.0) != dr_grpo()
    with pytest.raises(ValueError, match="length"):
        dr_grpo(length=0.0)

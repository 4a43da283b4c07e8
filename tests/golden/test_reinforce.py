"""REINFORCE, Williams 1992: the return, less the mean of the group or not, worked by hand."""

import pytest

from retrograde.algorithms.reinforce import reinforce
from retrograde.data.tree import End

from .chains import advantages, gradient, rollout

# Returns .25 + 1, 0 and .25: their mean is 1/2.
GROUP = rollout(0.25, 1.0, tokens=(2, 1)), rollout(0.0, tokens=3), rollout(0.25)


def test_the_return_itself():
    assert advantages(reinforce(baseline="none"), *GROUP) == [1.25, 1.25, 0.0, 0.25]


def test_less_the_mean_of_the_group():
    assert advantages(reinforce(), *GROUP) == [0.75, 0.75, -0.5, -0.25]


def test_a_failed_rollout_is_neither_trained_nor_in_the_mean():
    lost = rollout(0.0, end=End.FAILED)
    assert advantages(reinforce(), *GROUP, lost) == [0.75, 0.75, -0.5, -0.25]
    assert advantages(reinforce(baseline="none"), lost) == []


def test_equal_returns_say_something_only_without_a_baseline():
    # .1 + .2 and .3 differ in floating point, and that is no difference.
    equal = rollout(0.1, 0.2), rollout(0.3)
    assert advantages(reinforce(), *equal) == [0.0, 0.0, 0.0]
    assert advantages(reinforce(), rollout(1.0)) == [0.0]
    assert advantages(reinforce(baseline="none"), rollout(1.0)) == [1.0]


@pytest.mark.parametrize("ratios", [None, [0.1, 10.0, 1.0, 1.0, 3.0, 0.5, 2.0]])
def test_the_gradient_is_that_of_a_sum_over_tokens(ratios):
    # A / 3 rollouts at each token, however long its rollout is and however far pi has moved:
    # a ratio of 10 is neither a weight nor clipped.
    expected = [-0.25, -0.25, -0.25, 1 / 6, 1 / 6, 1 / 6, 1 / 12]
    assert gradient(reinforce(), GROUP, ratios=ratios) == pytest.approx(expected)


def test_one_step_an_iteration_unless_it_is_told():
    assert reinforce().update.minibatches == 1
    assert reinforce() == reinforce(rollouts=8, baseline="mean")
    assert reinforce() != reinforce(baseline="none")
    with pytest.raises(ValueError, match="rollouts"):
        reinforce(rollouts=0)

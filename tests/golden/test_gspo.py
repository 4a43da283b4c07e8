"""GSPO, arXiv:2507.18071: one ratio for a rollout, worked by hand."""

import math

import pytest

from retrograde.algorithms.gspo import gspo

from .chains import advantages, gradient, rollout

# Two turns of two tokens and one token, return 1; one turn of one token, return 0.
GROUP = rollout(0.0, 1.0, tokens=(2, 1)), rollout(0.0)
A = 0.5 / (math.sqrt(0.5) + 1e-6)


def test_advantages_are_grpos():
    assert advantages(gspo(), *GROUP) == pytest.approx([A, A, -A])


def test_on_policy_a_rollout_is_the_mean_of_its_tokens():
    # A / 3 tokens / 2 rollouts, and A / 2.
    assert gradient(gspo(), GROUP) == pytest.approx([-A / 6] * 3 + [A / 2])


def test_the_ratio_is_the_geometric_mean_over_the_turns_of_a_rollout():
    # (8 * 1/8 * 1.00075) ** (1/3) = 1.00025: within 1 + 4e-4, though 8 is not. Every token
    # has that weight: the ratio of its own token or turn is nowhere.
    ratios = [8.0, 0.125, 1.00075, 1.0]
    s = 1.00075 ** (1 / 3)
    assert gradient(gspo(), GROUP, ratios=ratios) == pytest.approx([-s * A / 6] * 3 + [A / 2])


def test_it_is_clipped_as_a_whole_at_bounds_of_its_own():
    # (1.0015) ** (1/3) = 1.0005 is above 1.0004: no token of the rollout gives a gradient.
    # .9996 is below 1 - 3e-4 under a negative advantage.
    ratios = [1.0015, 1.0, 1.0, 0.9996]
    assert gradient(gspo(), GROUP, ratios=ratios) == [0.0] * 4
    # At bounds meant for tokens nothing would be.
    assert all(gradient(gspo(clip_low=0.2, clip_high=0.2), GROUP, ratios=ratios))


def test_equal_arguments_give_equal_algorithms():
    assert gspo() == gspo(clip_low=3e-4, clip_high=4e-4) != gspo(clip_low=1e-3)
    with pytest.raises(ValueError, match="clip bounds"):
        gspo(clip_low=0.0)

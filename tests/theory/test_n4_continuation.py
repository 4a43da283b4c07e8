"""N4: continuations must come from the policy of now, and no weight is as good as that."""

import pytest
import torch

from .mdp import random_world, rollouts, values
from .measured import continued_value, reweighted_value, setting, weight_of, weight_variance

TURN = 0


def updated():
    """Turn 0 is to be judged; turns 1 and 2 have been updated since the trunk."""
    s = setting(random_world(51), TURN)
    before = values(s.world, s.policy.actions(s.before_D)).q_KSA[TURN]
    now = values(s.world, s.policy.actions(s.now_D)).q_KSA[TURN]
    assert (before - now).abs().min() > 1e-3
    return s, before, now


def close(actual, expected):
    torch.testing.assert_close(actual, expected, atol=1e-12, rtol=0)


def test_resampled_continuations_are_unbiased():
    s, _, now = updated()
    close(continued_value(s, s.now, TURN), now)


def test_stale_continuations_are_off_by_the_difference_of_the_values():
    s, before, now = updated()
    close(continued_value(s, s.before, TURN) - now, before - now)


def test_a_full_weight_takes_the_bias_away():
    s, _, now = updated()
    close(reweighted_value(s, TURN), now)


def test_without_a_weight_the_reweighted_value_is_the_stale_one():
    s, before, _ = updated()
    close(reweighted_value(s, TURN, 1.0, 1.0), before)


def test_a_clamped_weight_is_biased():
    s, before, now = updated()
    clamped = reweighted_value(s, TURN, 0.8, 1.2)
    assert (clamped - now).abs().max() > 1e-3
    assert (clamped - before).abs().max() > 1e-3


def test_a_product_of_clipped_ratios_is_no_clipped_product():
    # It stays within (1 -+ clip)^N, and is biased in its own way.
    s, _, _ = updated()
    after = list(rollouts(s.world, s.before.choice))
    full = [weight_of(s, path, 0) for _, path in after]
    cut = [weight_of(s, path, 0, clip=0.2) for _, path in after]
    # Turn 0 was not updated, so N = 2.
    assert all(0.8**2 - 1e-12 <= weight <= 1.2**2 + 1e-12 for weight in cut)
    assert max(full) > 1.2**2
    assert sum(p * weight for (p, _), weight in zip(after, full, strict=True)) == pytest.approx(1)
    means = sum(p * weight for (p, _), weight in zip(after, cut, strict=True))
    assert abs(means - 1) > 1e-2


def test_where_nothing_was_updated_every_weight_is_one():
    s = setting(random_world(51), 2)
    assert all(weight_of(s, path, 0) == 1.0 for _, path in rollouts(s.world, s.before.choice))


@pytest.mark.parametrize("num_turns", [1, 2, 4, 6])
def test_the_variance_of_the_weight_grows_as_the_paper_says(num_turns):
    # The policy moves equally far in every context, so the lower bound is met exactly.
    variance, bound = weight_variance(num_turns)
    assert variance == pytest.approx(bound, rel=1e-12)


def test_the_variance_by_hand():
    # From (1/2, 1/2) to (3/4, 1/4): ratios 3/2 and 1/2, E[rho^2] = (9/4 + 1/4) / 2 = 5/4.
    # Over two turns 25/16, and the mean is 1: the variance is 9/16.
    step = float(torch.tensor(3.0, dtype=torch.float64).log())
    assert weight_variance(1, step)[0] == pytest.approx(1 / 4)
    assert weight_variance(2, step)[0] == pytest.approx(9 / 16)


def test_where_contexts_differ_the_bound_is_a_bound():
    s = setting(random_world(52), 0)
    after = [(p, weight_of(s, path, 0)) for p, path in rollouts(s.world, s.before.choice)]
    assert sum(p * w for p, w in after) == pytest.approx(1)
    ratio_KSA = (s.policy.actions(s.now_D) - s.policy.actions(s.before_D)).exp()
    second_KS = (s.policy.actions(s.before_D).exp() * ratio_KSA.square()).sum(-1)
    # Turn 0 was not updated: two turns count.
    bound = float(second_KS[1:].min()) ** 2 - 1
    assert sum(p * w * w for p, w in after) - 1 >= bound > 0

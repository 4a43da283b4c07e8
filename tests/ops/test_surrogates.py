import torch
from hypothesis import given
from hypothesis import strategies as st

from retrograde.ops.surrogates import (
    bounded,
    clipped,
    clipped_weight,
    dual_clipped,
    is_clipped,
    softly_clipped,
    weighted_logp,
)


def test_clipped_by_hand():
    # The bound is active only where it makes the objective smaller.
    ratio_T = torch.tensor([1.5, 1.5, 0.5, 0.5, 1.1])
    advantage_T = torch.tensor([1.0, -1.0, 1.0, -1.0, 2.0])
    actual_T = clipped(ratio_T, advantage_T, low=0.2, high=0.3)
    torch.testing.assert_close(actual_T, torch.tensor([-1.3, 1.5, -0.5, 0.8, -2.2]))
    active_T = is_clipped(ratio_T, advantage_T, low=0.2, high=0.3)
    assert active_T.tolist() == [True, False, False, True, False]


ratios = st.floats(0.01, 3)
advantages = st.floats(-3, 3).filter(lambda a: a == 0 or abs(a) > 1e-3)
bounds = st.floats(0.05, 1)


@given(ratios, advantages, bounds, bounds)
def test_it_never_promises_more_than_the_ratio_does(ratio, advantage, low, high):
    ratio_T, advantage_T = torch.tensor([ratio]), torch.tensor([advantage])
    assert clipped(ratio_T, advantage_T, low, high) >= -ratio_T * advantage_T


@given(ratios, advantages, bounds, bounds)
def test_a_token_is_clipped_exactly_if_it_gives_no_gradient(ratio, advantage, low, high):
    ratio_T = torch.tensor([ratio], requires_grad=True)
    advantage_T = torch.tensor([advantage])
    clipped(ratio_T, advantage_T, low, high).sum().backward()
    silent = bool(ratio_T.grad == 0)
    assert silent == (advantage == 0 or bool(is_clipped(ratio_T, advantage_T, low, high)))


RATIO_T = torch.tensor([1.5, 1.5, 0.5, 0.5, 10.0])
ADVANTAGE_T = torch.tensor([1.0, -1.0, 1.0, -1.0, -2.0])


def slope_of(surrogate, ratio_T=RATIO_T):
    """d loss / d log pi of each token."""
    logp_T = torch.zeros_like(ratio_T, requires_grad=True)
    surrogate(ratio_T * logp_T.exp(), logp_T).sum().backward()
    return logp_T.grad


def test_dual_clipped_by_hand():
    # 1.5 under -1 costs 1.5, within 3; 10 under -2 costs 20 and is held at 3 * 2.
    loss_T = clipped(RATIO_T, ADVANTAGE_T, 0.2, 0.3)
    torch.testing.assert_close(loss_T, torch.tensor([-1.3, 1.5, -0.5, 0.8, 20.0]))
    held_T = dual_clipped(loss_T, ADVANTAGE_T, 3.0)
    torch.testing.assert_close(held_T, torch.tensor([-1.3, 1.5, -0.5, 0.8, 6.0]))
    slope_T = slope_of(
        lambda r, _: dual_clipped(clipped(r, ADVANTAGE_T, 0.2, 0.3), ADVANTAGE_T, 3.0)
    )
    torch.testing.assert_close(slope_T, torch.tensor([0.0, 1.5, -0.5, 0.0, 0.0]))


def test_clipped_weight_by_hand():
    # The weight is 1.3, 1.3, .8, .8 and 1.3; times -A it is the slope, and no token has none.
    slope_T = slope_of(lambda r, logp: clipped_weight(r, logp, ADVANTAGE_T, 0.2, 0.3))
    torch.testing.assert_close(slope_T, torch.tensor([-1.3, 1.3, -0.8, 0.8, 2.6]))
    value_T = clipped_weight(RATIO_T, torch.full((5,), -2.0), ADVANTAGE_T, 0.2, 0.3)
    torch.testing.assert_close(value_T, torch.tensor([2.6, -2.6, 1.6, -1.6, -5.2]))


def test_softly_clipped_by_hand():
    # Above 1.3 under a positive advantage: the value of the bound, and its slope, not 0. Under a
    # negative one the ratio itself is worse and counts. Below .8 it is PPO's clip.
    value_T = softly_clipped(RATIO_T, ADVANTAGE_T, 0.2, 0.3)
    torch.testing.assert_close(value_T, torch.tensor([-1.3, 1.5, -0.5, 0.8, 20.0]))
    slope_T = slope_of(lambda r, _: softly_clipped(r, ADVANTAGE_T, 0.2, 0.3))
    torch.testing.assert_close(slope_T, torch.tensor([-1.3, 1.5, -0.5, 0.0, 20.0]))


def test_weighted_logp_by_hand():
    logp_T = torch.tensor([-1.0, -2.0, 0.0, -0.5, -3.0])
    expected_T = torch.tensor([1.0, -2.0, 0.0, -0.5, -6.0])
    torch.testing.assert_close(weighted_logp(logp_T, ADVANTAGE_T), expected_T)
    slope_T = slope_of(lambda _, logp: weighted_logp(logp, ADVANTAGE_T))
    torch.testing.assert_close(slope_T, -ADVANTAGE_T)  # whatever the ratio is


def test_bounds_may_be_one_for_each_token():
    # Ratio 1.5 within .6, held at .2; .5 under a negative advantage within .6, held at .1.
    ratio_T = torch.tensor([1.5, 1.5, 0.5, 0.5])
    advantage_T = torch.tensor([1.0, 1.0, -1.0, -1.0])
    low_T, high_T = torch.tensor([0.2, 0.2, 0.6, 0.1]), torch.tensor([0.6, 0.2, 0.3, 0.3])
    found_T = clipped(ratio_T, advantage_T, low_T, high_T)
    torch.testing.assert_close(found_T, torch.tensor([-1.5, -1.2, 0.5, 0.9]))
    assert is_clipped(ratio_T, advantage_T, low_T, high_T).tolist() == [False, True, False, True]


def test_one_bound_may_be_a_number_and_the_other_one_for_each_token():
    ratio_T, each_T = torch.tensor([1.5, 0.5]), torch.tensor([0.25, 0.75])
    torch.testing.assert_close(bounded(ratio_T, 0.25, each_T), torch.tensor([1.25, 0.75]))
    torch.testing.assert_close(bounded(ratio_T, each_T, 0.25), torch.tensor([1.25, 0.5]))


@given(ratios, advantages, bounds, bounds, st.floats(1.1, 4))
def test_a_dual_clip_never_costs_more_and_leaves_good_tokens_alone(
    ratio, advantage, low, high, most
):
    ratio_T, advantage_T = torch.tensor([ratio]), torch.tensor([advantage])
    loss_T = clipped(ratio_T, advantage_T, low, high)
    held_T = dual_clipped(loss_T, advantage_T, most)
    assert held_T <= loss_T
    if advantage >= 0 or ratio <= most:
        assert held_T == loss_T


@given(ratios, advantages, bounds, bounds)
def test_within_the_bounds_all_have_the_slope_of_the_ratio(ratio, advantage, low, high):
    if not 1 - low < ratio < 1 + high:
        return
    ratio_T, advantage_T = torch.tensor([ratio]), torch.tensor([advantage])
    for surrogate in (
        lambda r, _: clipped(r, advantage_T, low, high),
        lambda r, _: softly_clipped(r, advantage_T, low, high),
        lambda r, logp: clipped_weight(r, logp, advantage_T, low, high),
    ):
        torch.testing.assert_close(slope_of(surrogate, ratio_T), -advantage_T * ratio_T)


def test_a_ratio_on_the_bound_or_an_advantage_of_nothing_is_not_clipped():
    # 1.5 and .5 are exact in binary, and so are the bounds.
    ratio_T = torch.tensor([1.5, 0.5, 2.0, 0.25])
    advantage_T = torch.tensor([1.0, -1.0, 0.0, 0.0])
    assert not is_clipped(ratio_T, advantage_T, 0.5, 0.5).any()
    assert is_clipped(ratio_T, torch.tensor([1.0, -1.0, 1.0, -1.0]), 0.5, 0.5).tolist() == [
        False,
        False,
        True,
        True,
    ]

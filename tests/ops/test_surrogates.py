import torch
from hypothesis import given
from hypothesis import strategies as st

from retrograde.ops.surrogates import clipped, is_clipped


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

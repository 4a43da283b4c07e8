import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from retrograde.ops.regression import clipped_error, explained_variance, is_error_clipped

# Value, what it was, target, bound .5:
#   moved 1 towards the target 2 from 0:   max((1-2)^2, (.5-2)^2) / 2 = 1.125, clipped
#   moved .25 towards it:                  (.25-2)^2 / 2 = 1.53125
#   moved 1 away from the target -1:       max((1+1)^2, (.5+1)^2) / 2 = 2
#   moved past the target .75 to 1.25:     max(.25, (.5-.75)^2) / 2 = .125
VALUE = torch.tensor([1.0, 0.25, 1.0, 1.25])
BEFORE = torch.zeros(4)
TARGET = torch.tensor([2.0, 2.0, -1.0, 0.75])


def test_clipped_error_by_hand():
    found = clipped_error(VALUE, BEFORE, TARGET, 0.5)
    torch.testing.assert_close(found, torch.tensor([1.125, 1.53125, 2.0, 0.125]))
    active = is_error_clipped(VALUE, BEFORE, TARGET, 0.5)
    assert active.tolist() == [True, False, False, False]


def test_without_a_clip_it_is_half_the_square():
    found = clipped_error(VALUE, BEFORE, TARGET, None)
    torch.testing.assert_close(found, torch.tensor([0.5, 1.53125, 2.0, 0.125]))


numbers = st.floats(-3, 3)


@given(numbers, numbers, numbers, st.floats(0.1, 1))
def test_a_state_is_clipped_exactly_if_it_gives_no_gradient(value, before, target, clip):
    if abs(value - target) < 1e-3:
        return
    live = torch.tensor([value], requires_grad=True)
    old, aim = torch.tensor([before]), torch.tensor([target])
    clipped_error(live, old, aim, clip).sum().backward()
    assert bool(live.grad == 0) == bool(is_error_clipped(live.detach(), old, aim, clip))


def test_explained_variance_by_hand():
    # Targets 0, 1, 2 around 1: 2. Errors 0, 0, 1 around 1/3: 2/3. So 1 - 1/3.
    target = torch.tensor([0.0, 1.0, 2.0])
    assert explained_variance(torch.tensor([0.0, 1.0, 1.0]), target) == pytest.approx(2 / 3)
    assert explained_variance(target, target) == 1.0
    assert explained_variance(torch.full((3,), 7.0), target) == pytest.approx(0.0)
    assert explained_variance(target, torch.ones(3)) is None

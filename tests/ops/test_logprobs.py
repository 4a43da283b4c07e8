import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from retrograde.ops.logprobs import selected_logp


def test_by_hand():
    # Logits log 1 and log 3: 1/4 and 3/4. At temperature 1/2: 1/10 and 9/10.
    logits_V = torch.tensor([[0.0, math.log(3)]] * 2).double()
    chosen = torch.tensor([0, 1])
    expected = torch.tensor([0.25, 0.75]).double().log()
    torch.testing.assert_close(selected_logp(logits_V, chosen, 1.0), expected)
    expected = torch.tensor([0.1, 0.9]).double().log()
    torch.testing.assert_close(selected_logp(logits_V, chosen, 0.5), expected)


@given(
    st.lists(st.lists(st.floats(-30, 30), min_size=5, max_size=5), min_size=1, max_size=4),
    st.integers(0, 4),
    st.floats(0.1, 3),
)
def test_it_is_log_softmax(logits, chosen, temperature):
    logits_V = torch.tensor(logits).double()
    ids = torch.full((len(logits),), chosen)
    expected = (logits_V / temperature).log_softmax(-1)[:, chosen]
    torch.testing.assert_close(selected_logp(logits_V, ids, temperature), expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_summed_in_single(dtype):
    # 4096 equal logits: 1/4096 each. Summed in half precision this would be off.
    logits_V = torch.zeros(1, 4096, dtype=dtype)
    actual = selected_logp(logits_V, torch.tensor([7]), 1.0)
    assert actual.dtype is torch.float32
    assert float(actual) == pytest.approx(-math.log(4096))


def test_its_gradient_is_that_of_a_softmax():
    logits_V = torch.tensor([0.0, math.log(3)], dtype=torch.float64, requires_grad=True)
    selected_logp(logits_V, torch.tensor(0), 1.0).backward()
    torch.testing.assert_close(logits_V.grad, torch.tensor([0.75, -0.75]).double())

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from retrograde.ops.divergences import k3


def test_by_hand():
    # d = log 2: 1/2 - 1 + log 2. d = -log 2: 2 - 1 - log 2. d = 0: 0.
    logp_T = torch.tensor([0.0, -math.log(2), -1.0])
    reference_T = torch.tensor([-math.log(2), 0.0, -1.0])
    expected_T = torch.tensor([math.log(2) - 0.5, 1 - math.log(2), 0.0])
    torch.testing.assert_close(k3(logp_T, reference_T), expected_T)


@given(st.floats(-20, 0), st.floats(-20, 0))
def test_never_negative(logp, reference):
    value = k3(*torch.tensor([[logp], [reference]], dtype=torch.float64))
    assert float(value) >= 0


def distributions(size):
    weights = st.lists(st.floats(0.05, 1), min_size=size, max_size=size)
    return weights.map(lambda w: torch.tensor(w, dtype=torch.float64).log().log_softmax(-1))


@given(distributions(4), distributions(4))
def test_its_mean_under_the_policy_is_the_divergence(logp, reference):
    mean = float((logp.exp() * k3(logp, reference)).sum())
    assert mean == pytest.approx(float((logp.exp() * (logp - reference)).sum()), abs=1e-12)

import torch
from hypothesis import given
from hypothesis import strategies as st

from retrograde.ops.segments import segment_mean, segment_sum


def test_by_hand():
    value_T = torch.tensor([1.0, 2.0, 6.0])
    segment_T = torch.tensor([2, 0, 2])
    assert segment_sum(value_T, segment_T, 3).tolist() == [2.0, 0.0, 7.0]
    assert segment_mean(value_T, segment_T, 3).tolist() == [2.0, 0.0, 3.5]


@given(st.lists(st.tuples(st.floats(-9, 9), st.integers(0, 4)), min_size=1, max_size=30))
def test_against_a_loop(tokens):
    value_T = torch.tensor([value for value, _ in tokens], dtype=torch.float64)
    segment_T = torch.tensor([segment for _, segment in tokens])
    of_each = [[value for value, segment in tokens if segment == s] for s in range(5)]
    expected_S = torch.tensor([sum(values) for values in of_each], dtype=torch.float64)
    torch.testing.assert_close(segment_sum(value_T, segment_T, 5), expected_S)
    means_S = torch.tensor([sum(v) / max(len(v), 1) for v in of_each], dtype=torch.float64)
    torch.testing.assert_close(segment_mean(value_T, segment_T, 5), means_S)


def test_the_gradient_of_a_sum_is_one_and_of_a_mean_its_share():
    value_T = torch.tensor([1.0, 2.0, 6.0], requires_grad=True)
    segment_T = torch.tensor([0, 0, 1])
    segment_sum(value_T, segment_T, 2)[0].backward()
    assert value_T.grad.tolist() == [1.0, 1.0, 0.0]
    value_T.grad = None
    segment_mean(value_T, segment_T, 2)[0].backward()
    assert value_T.grad.tolist() == [0.5, 0.5, 0.0]

import torch
from hypothesis import given
from hypothesis import strategies as st

from retrograde.ops.ratios import geometric_ratio, token_ratio


def logs(*values):
    return torch.tensor(values, dtype=torch.float64).log()


def test_token_ratio_by_hand():
    actual_T = token_ratio(logs(0.5, 0.1), logs(0.25, 0.2))
    torch.testing.assert_close(actual_T, torch.tensor([2.0, 0.5], dtype=torch.float64))


def test_geometric_ratio_by_hand():
    # Tokens 0 and 2 are one segment, with ratios 2 and 8: their geometric mean is 4.
    actual_T = geometric_ratio(logs(0.2, 0.3, 0.8), logs(0.1, 0.6, 0.1), torch.tensor([0, 1, 0]), 2)
    torch.testing.assert_close(actual_T, torch.tensor([4.0, 0.5, 4.0], dtype=torch.float64))


def test_the_gradient_flows_through_the_tokens_own_probability():
    logp_T = logs(0.2, 0.8).requires_grad_()
    ratio_T = geometric_ratio(logp_T, logs(0.1, 0.1), torch.tensor([0, 0]), 1)
    (ratio_T * torch.tensor([1.0, 10.0])).sum().backward()
    # Each token's own ratio is 4, and nothing comes from the other.
    torch.testing.assert_close(logp_T.grad, torch.tensor([4.0, 40.0], dtype=torch.float64))


pairs = st.lists(
    st.tuples(st.floats(-5, 0), st.floats(-5, 0), st.integers(0, 3)), min_size=1, max_size=20
)


@given(pairs)
def test_where_segments_are_one_token_long_the_two_agree(tokens):
    logp, behaviour, _ = zip(*tokens, strict=True)
    logp_T, behaviour_T = (torch.tensor(x, dtype=torch.float64) for x in (logp, behaviour))
    alone_T = torch.arange(len(tokens))
    torch.testing.assert_close(
        geometric_ratio(logp_T, behaviour_T, alone_T, len(tokens)),
        token_ratio(logp_T, behaviour_T),
    )


@given(pairs)
def test_the_product_over_a_segment_is_the_product_of_its_token_ratios(tokens):
    logp, behaviour, segment = zip(*tokens, strict=True)
    logp_T, behaviour_T = (torch.tensor(x, dtype=torch.float64) for x in (logp, behaviour))
    segment_T = torch.tensor(segment)
    ratio_T = geometric_ratio(logp_T, behaviour_T, segment_T, 4)
    for one in set(segment):
        mine_T = segment_T == one
        expected = token_ratio(logp_T, behaviour_T)[mine_T].prod()
        torch.testing.assert_close(ratio_T[mine_T].prod(), expected)

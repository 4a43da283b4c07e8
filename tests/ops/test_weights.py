import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from retrograde.ops.weights import equal_shares, segment_shares

segments = st.lists(st.integers(0, 6), min_size=1, max_size=40)


def test_equal_shares_by_hand():
    # Segments of 2, 1 and 0 tokens: two are not empty. 1/4, 1/4 and 1/2.
    actual_T = equal_shares(torch.tensor([0, 1, 0]), 3)
    assert actual_T.tolist() == [0.25, 0.5, 0.25]


def test_segment_shares_by_hand():
    assert segment_shares(torch.tensor([0, 1, 0]), 3).tolist() == [0.5, 0.5, 0.5]


@given(segments)
def test_equal_shares_sum_to_one(segment):
    assert float(equal_shares(torch.tensor(segment), 7).sum()) == pytest.approx(1, abs=1e-14)


@given(segments)
def test_each_segment_gets_the_same(segment):
    segment_T = torch.tensor(segment)
    share_T = equal_shares(segment_T, 7)
    for one in set(segment):
        share = float(share_T[segment_T == one].sum())
        assert share == pytest.approx(1 / len(set(segment)), abs=1e-14)


@given(segments)
def test_segment_shares_sum_to_the_mean_length(segment):
    total = float(segment_shares(torch.tensor(segment), 7).sum())
    assert total == pytest.approx(len(segment) / len(set(segment)), abs=1e-12)


@given(segments)
def test_where_all_segments_are_one_token_long_both_agree(segment):
    alone_T = torch.arange(len(segment))
    assert torch.equal(equal_shares(alone_T, len(segment)), segment_shares(alone_T, len(segment)))


def test_weights_of_no_tokens():
    none_T = torch.zeros(0, dtype=torch.long)
    assert equal_shares(none_T, 3).tolist() == []
    assert segment_shares(none_T, 0).tolist() == []

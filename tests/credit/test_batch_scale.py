"""Advantages over a whole update, by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrograde.credit.batch_scale import BatchScale
from retrograde.data.rows import Row


def row(rollout, advantage, turn=0, group=0, tokens=1):
    place = (0, group, rollout, 0)
    return Row((1,), (2,) * tokens, (-1.0,) * tokens, advantage, turn, group, place)


def scaled(rows, **options):
    return [r.advantage for r in BatchScale(**options)(rows)]


# Two groups: 3 and -3, 1 and -1. Sum of squares 20, over 3: 6.6667, root 2.58199.
ROWS = [row(0, 3.0), row(1, -3.0), row(2, 1.0, group=1), row(3, -1.0, group=1)]
SPREAD = math.sqrt(20 / 3) + 1e-6


def test_four_rollouts_of_two_groups():
    assert scaled(ROWS) == pytest.approx([3 / SPREAD, -3 / SPREAD, 1 / SPREAD, -1 / SPREAD])


def test_a_rollout_counts_once_however_many_turns_it_has():
    long = [row(0, 3.0, turn) for turn in range(5)]
    found = scaled([*long, *ROWS[1:]])
    assert found == pytest.approx([3 / SPREAD] * 5 + [-3 / SPREAD, 1 / SPREAD, -1 / SPREAD])
    # Counted by rows it would be sqrt((5 * 9 + 9 + 1 + 1) / 7).
    assert found[0] != pytest.approx(3 / math.sqrt(56 / 7), rel=1e-2)


def test_a_bound():
    # One of eleven: 10 and ten times -1. Sum of squares 110, over 10: 11. 10 / 3.3166 = 3.0151.
    rows = [row(0, 10.0), *(row(i, -1.0) for i in range(1, 11))]
    assert scaled(rows)[0] == pytest.approx(10 / (math.sqrt(11) + 1e-6))
    assert scaled(rows, bound=3.0)[0] == 3.0
    assert scaled(rows, bound=3.0)[1:] == scaled(rows)[1:]
    assert scaled([row(0, -10.0), *(row(i, 1.0) for i in range(1, 11))], bound=3.0)[0] == -3.0


def test_a_group_that_agrees_stays_at_exactly_nothing():
    # .1, .2 and -.3 add up to 2.8e-17 in floating point: taking off their mean would be dust.
    assert 0.1 + 0.2 - 0.3 != 0
    uneven = [row(0, 0.1), row(1, 0.2), row(2, -0.3)]
    assert scaled([*uneven, row(3, 0.0, group=1), row(4, 0.0, group=1)])[3:] == [0.0, 0.0]
    assert scaled([row(0, 0.0), row(1, 0.0)]) == [0.0, 0.0]


def test_a_single_rollout_stays_as_it_is():
    assert scaled([row(0, 0.5), row(0, 0.5, turn=1)]) == [0.5, 0.5]


def test_rollouts_judged_in_parts_are_refused():
    with pytest.raises(ValueError, match=r"one advantage .* got -1\.0 at turn 1 and 1\.0 before"):
        BatchScale()([row(0, 1.0), row(0, -1.0, turn=1)])
    with pytest.raises(ValueError, match="one advantage for all tokens"):
        BatchScale()([row(0, (1.0, 0.5), tokens=2)])
    with pytest.raises(ValueError, match="bound: above 0 or None is needed, got 0"):
        BatchScale(bound=0.0)


@given(st.lists(st.floats(-5, 5).map(lambda a: round(a, 3)), min_size=2), st.floats(1, 100))
def test_a_change_of_unit_changes_nothing(each, unit):
    rows = [row(i, a) for i, a in enumerate(each)]
    larger = [row(i, a * unit) for i, a in enumerate(each)]
    assert scaled(larger) == pytest.approx(scaled(rows), rel=2e-3, abs=2e-3)

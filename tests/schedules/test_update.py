"""Minibatches and stages of an update, by hand and by laws."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrograde.data.rows import Row
from retrograde.schedules.update import Update


def row(group, turn=0, advantage=1.0):
    return Row((1,), (2,), (-1.0,), advantage, turn, group, (0, group, 0, turn))


def parts(update, rows, seed=1):
    return [[r.group for r in batch] for batch in update.batches(rows, seed)]


def test_a_single_minibatch_is_every_row_in_order():
    rows = [row(2), row(0), row(1), row(0)]
    assert parts(Update(minibatches=1), rows) == [[2, 0, 1, 0]]


def test_three_minibatches_have_a_third_of_the_groups_each():
    # 7 groups dealt out to 3: 3, 2 and 2 of them, whole.
    rows = [row(g, turn) for g in range(7) for turn in range(2)]
    dealt = [sorted(set(groups)) for groups in parts(Update(minibatches=3), rows)]
    assert [len(groups) for groups in dealt] == [3, 2, 2]
    assert sorted(g for groups in dealt for g in groups) == list(range(7))


def test_fewer_groups_than_minibatches_take_fewer_steps():
    assert [len(batch) for batch in parts(Update(minibatches=4), [row(0), row(1)])] == [1, 1]


def test_a_seed_says_the_order_and_another_seed_another():
    rows = [row(g) for g in range(8)]
    update = Update(minibatches=2)
    assert parts(update, rows, 1) == parts(update, rows, 1)
    assert len({str(parts(update, rows, seed)) for seed in range(10)}) > 5


def test_each_epoch_deals_anew():
    rows = [row(g) for g in range(8)]
    dealt = parts(Update(minibatches=2, epochs=3), rows)
    assert len(dealt) == 6
    assert len({str(batch) for batch in dealt}) > 2


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=12),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(0, 9),
)
def test_each_epoch_has_every_row_once_and_divides_no_group(groups, minibatches, epochs, seed):
    rows = [row(g, turn) for turn, g in enumerate(groups)]
    batches = list(Update(minibatches=minibatches, epochs=epochs).batches(rows, seed))
    assert Counter(r.rollout for batch in batches for r in batch) == Counter(
        {r.rollout: epochs for r in rows}
    )
    for batch in batches:
        mine = {r.group for r in batch}
        assert [r for r in rows if r.group in mine] == batch


@pytest.mark.parametrize(("informative", "least", "expected"), [(2, 2, True), (1, 2, False)])
def test_an_update_needs_so_many_rows_that_say_something(informative, least, expected):
    rows = [row(0)] * informative + [row(1, advantage=0.0)] * 5
    assert Update(min_signal=least).has_signal(rows) is expected


def test_stages_are_all_rows_or_the_last_turn_first():
    rows = [row(0, 0), row(0, 1), row(1, 0), row(1, 2)]
    assert Update().stages(rows) == [rows]
    staged = Update(last_turn_first=True).stages(rows)
    assert [[(r.group, r.turn) for r in stage] for stage in staged] == [
        [(1, 2)],
        [(0, 1)],
        [(0, 0), (1, 0)],
    ]

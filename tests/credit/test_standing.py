"""How values stand among each other, by hand."""

import math

import pytest
from tests.golden.told import chain, judged

from retrograde.credit import turn_value
from retrograde.credit.anchor import AnchorRelative
from retrograde.credit.standing import relative, relative_within
from retrograde.credit.whitening import Whitened
from retrograde.data.rows import Row


def test_parts_stand_apart_and_options_are_passed_on():
    # 0 and 2 around 1, deviation sqrt 2 of a sample and 1 of a population; 5 stands alone.
    values = {"a": 0.0, "b": 2.0, "c": 5.0}

    def within(**options):
        return relative_within(values, lambda key: key == "c", **options)

    assert within(scale=False) == {"a": -1.0, "b": 1.0, "c": 0.0}
    assert within(epsilon=1.0)["b"] == pytest.approx(1 / (math.sqrt(2) + 1))
    assert within(epsilon=1.0, population=True)["b"] == pytest.approx(1 / 2)


def test_values_that_differ_in_the_last_place_are_equal_and_others_are_not():
    assert relative({"a": 0.1 + 0.2, "b": 0.3}) == {"a": 0.0, "b": 0.0}
    # Around 1000 the last place is 1e-13, near nothing it is nothing.
    assert relative({"a": 1000.0, "b": 1000.0 + 2e-10}) == {"a": 0.0, "b": 0.0}
    assert relative({"a": 0.0, "b": 1e-13}) == {"a": 0.0, "b": 0.0}
    assert relative({"a": 1000.0, "b": 1000.0 + 1e-6})["b"] > 0
    assert relative({"a": 0.0, "b": 1e-9})["b"] > 0


def test_whitening_adds_to_a_small_variance():
    # 0 and 2e-4 vary by 2e-8 as a sample: -+ 1e-4 / sqrt(3e-8).
    rows = [Row((1,), (2,), (-1.0,), a, 0, 0, (0, 0, i, 0)) for i, a in enumerate((0.0, 2e-4))]
    low, high = (row.advantage for row in Whitened()(rows))
    assert (low, high) == pytest.approx((-1e-4 / math.sqrt(3e-8), 1e-4 / math.sqrt(3e-8)))


def test_where_all_children_are_certain_their_plain_mean_counts():
    values = {(0, 1): 1.0, (0, 2): 0.0, (0, 3): 0.5}
    assert turn_value._mean(values, dict.fromkeys(values, 0.0)) == pytest.approx(0.5)
    assert turn_value._mean(values, {(0, 1): 1.0, (0, 2): 0.0, (0, 3): 1.0}) == 0.75


def test_long_observations_are_compared_whole():
    # The first of 300 tokens differs: a likeness of 299/300. difflib's shortcut for long texts
    # would leave out whatever is frequent, which is all the others, and find no likeness at all.
    one, other = (8,) + (7,) * 299, (9,) + (7,) * 299
    rollouts = chain(0.0, 1.0, told=((1,), one)), chain(0.0, 0.0, told=((1,), other))
    alike = AnchorRelative(scale=False, gamma=1.0, similarity=0.99)
    apart = AnchorRelative(scale=False, gamma=1.0)
    # A^E is 1/2 and -1/2 throughout; A^S the same at the opening, and where anchors are alike.
    assert judged(alike, *rollouts) == [[1.0, 1.0], [-1.0, -1.0]]
    assert judged(apart, *rollouts) == [[1.0, 0.5], [-1.0, -0.5]]

"""Laws of sibling credit. Numbers worked by hand are in `tests/golden/test_rtpo.py`."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrograde.credit.sibling_mean import SiblingMean, departures, value_of
from retrograde.data.tree import ROOT_PARENT, End, Group, Tree, Turn


def turn(parent, reward=0.0, end=None, grown_in=0, into=None):
    return Turn(parent, 0, (9,), (9,), (1,), (-1.0,), grown_in, 0, reward, end, into)


@st.composite
def boundaries(draw):
    """A trunk of two turns and siblings of the second: over, continued, merged or failed."""
    turns = [turn(ROOT_PARENT, draw(eighths)), turn(0, draw(eighths), End.FINISHED)]
    going_on: list[int] = []
    for _ in range(draw(st.integers(2, 6))):
        kind = draw(st.sampled_from(("over", "on", "merged", "failed")))
        if kind == "over":
            turns.append(turn(0, draw(eighths), End.FINISHED, 1))
        elif kind == "failed":
            turns.append(turn(0, 0.0, End.FAILED, 1))
        elif kind == "merged" and going_on:
            into = draw(st.sampled_from(going_on))
            turns.append(turn(0, draw(eighths), End.MERGED, 1, into))
        else:
            turns.append(turn(0, draw(eighths), None, 1))
            going_on.append(len(turns) - 1)
    for parent in going_on:
        for _ in range(draw(st.integers(1, 3))):
            end = draw(st.sampled_from((End.FINISHED, End.TRUNCATED, End.FAILED)))
            turns.append(turn(parent, 0.0 if end is End.FAILED else draw(eighths), end, 1))
    return Tree(tuple(turns))


eighths = st.integers(-8, 16).map(lambda i: i / 8)


def advantages(tree, grown_in=1):
    (judged,) = SiblingMean()(Group("t", (tree,)), grown_in)
    visits = zip(tree.visits, judged.advantage_V, judged.trains_V, strict=True)
    return {visited: advantage for (_, visited), advantage, trains in visits if trains}


@given(boundaries())
def test_advantages_of_siblings_sum_to_nothing(tree):
    assert sum(advantages(tree).values()) == pytest.approx(0, abs=1e-9)


@given(boundaries())
def test_what_does_not_train_has_no_advantage(tree):
    (judged,) = SiblingMean()(Group("t", (tree,)), 1)
    for advantage, trains in zip(judged.advantage_V, judged.trains_V, strict=True):
        assert trains or advantage == 0.0


@given(boundaries())
def test_who_trains_is_a_sibling_that_has_a_value(tree):
    expected = {i for i in departures(tree, 1) if value_of(tree, i) is not None}
    assert set(advantages(tree)) == expected


@given(boundaries())
def test_differences_of_advantages_are_differences_of_values(tree):
    found = advantages(tree)
    for one in found:
        for other in found:
            expected = value_of(tree, one) - value_of(tree, other)
            assert found[one] - found[other] == pytest.approx(expected, abs=1e-9)


@given(boundaries(), st.integers(-5, 5))
def test_a_constant_on_every_outcome_changes_no_advantage(tree, constant):
    outcomes = {End.FINISHED, End.TRUNCATED}
    shifted = Tree(
        tuple(
            replace(node, reward=node.reward + constant) if node.end in outcomes else node
            for node in tree.turns
        )
    )
    assert advantages(shifted) == pytest.approx(advantages(tree), abs=1e-9)


@given(boundaries(), st.integers(-5, 5))
def test_what_was_earned_before_the_boundary_changes_no_advantage(tree, constant):
    first, *rest = tree.turns
    shifted = Tree((replace(first, reward=first.reward + constant), *rest))
    assert advantages(shifted) == pytest.approx(advantages(tree), abs=1e-9)


@given(boundaries(), eighths)
def test_the_trunks_own_outcome_changes_no_advantage(tree, reward):
    first, second, *rest = tree.turns
    other = Tree((first, replace(second, reward=reward), *rest))
    assert advantages(other) == advantages(tree)


@given(st.lists(eighths, min_size=2, max_size=6), st.randoms())
def test_the_order_of_siblings_does_not_matter(rewards, random):
    order = list(range(len(rewards)))
    random.shuffle(order)

    def of(values):
        siblings = (turn(0, value, End.FINISHED, 1) for value in values)
        found = advantages(Tree((turn(ROOT_PARENT), turn(0, 0.0, End.FINISHED), *siblings)))
        return [found[i + 2] for i in range(len(values))]

    expected = of(rewards)
    shuffled = of([rewards[i] for i in order])
    assert shuffled == pytest.approx([expected[i] for i in order], abs=1e-12)


@given(st.floats(-1e9, 1e9), st.integers(2, 7))
def test_equal_siblings_get_exactly_nothing(reward, count):
    # Also for numbers whose mean is not quite themselves.
    siblings = (turn(ROOT_PARENT, reward, End.FINISHED, 1) for _ in range(count))
    tree = Tree((turn(ROOT_PARENT, 0.0, End.FINISHED), *siblings))
    assert set(advantages(tree).values()) == {0.0}


def test_a_tree_that_did_not_grow_in_the_round_trains_nothing():
    tree = Tree((turn(ROOT_PARENT, 1.0, End.FINISHED),))
    assert advantages(tree, 1) == advantages(tree, 0) == {}


def test_a_shared_turn_trains_once():
    # The sibling 2 is on three rollouts.
    tree = Tree(
        (
            turn(ROOT_PARENT),
            turn(0, 0.0, End.FINISHED),
            turn(0, 0.0, None, 1),
            turn(0, 0.0, End.FINISHED, 1),
            *(turn(2, float(i), End.FINISHED, 1) for i in range(3)),
        )
    )
    (judged,) = SiblingMean()(Group("t", (tree,)), 1)
    assert sum(visited == 2 for _, visited in tree.visits) == 3
    assert sum(judged.trains_V) == 2
    assert advantages(tree) == {2: 0.5, 3: -0.5}

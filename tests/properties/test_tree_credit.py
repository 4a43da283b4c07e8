"""What holds for each credit of a tree on any forest."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrograde.credit.local_global import LocalGlobal
from retrograde.credit.prefix_mean import PrefixMean
from retrograde.credit.standing import outcomes, relative
from retrograde.credit.tree_relative import TreeRelative
from retrograde.credit.turn_value import TurnValue
from retrograde.credit.whitening import Whitened
from retrograde.data.rows import rows_of
from retrograde.data.tree import End, Group, Tree, Turn

from .forests import groups

CREDITS = [
    *(TurnValue(weights) for weights in ("share", "softmax", "mean", "leaf_mean")),
    *(TurnValue(credit=credit) for credit in ("local", "global", "both", "outcome")),
    TurnValue(once=True),
    TreeRelative(99),
    TreeRelative(1),
    LocalGlobal(),
    PrefixMean(),
    PrefixMean("size"),
]


def with_returns(group, change):
    """The same trees, with other rewards on their valid leaves."""
    return Group(
        group.task,
        tuple(
            Tree(
                tuple(
                    replace(turn, reward=change(turn.reward, tree.returns[i]))
                    if i in tree.leaves and turn.end is not End.FAILED
                    else turn
                    for i, turn in enumerate(tree.turns)
                )
            )
            for tree in group.trees
        ),
    )


def chain(length, reward, tokens):
    """A rollout whose turns have so many tokens each."""
    turns = []
    for i in range(length):
        end, earned = (End.FINISHED, reward) if i == length - 1 else (None, 0.0)
        said = (tuple(range(tokens)), (-1.0,) * tokens)
        turns.append(Turn(i - 1, 0, (1,), (1,), *said, 0, 0, earned, end))
    return Tree(tuple(turns))


def flat(judged):
    return [value for judgement in judged for value in judgement.advantage_V]


@given(groups)
def test_what_is_added_to_every_return_changes_nothing(group):
    more = with_returns(group, lambda reward, _: reward + 2.0)
    for credit in CREDITS:
        before, after = credit(group, 1), credit(more, 1)
        assert flat(after) == pytest.approx(flat(before), abs=1e-9), credit
        assert [j.trains_V for j in after] == [j.trains_V for j in before]


@given(groups)
def test_equal_returns_give_exactly_nothing(group):
    level = with_returns(group, lambda reward, total: reward + 0.7 - total)
    for credit in CREDITS:
        assert set(flat(credit(level, 1))) == {0.0}, credit


@given(groups)
def test_failed_rollouts_never_train(group):
    for credit in CREDITS:
        for tree, judgement in zip(group.trees, credit(group, 1), strict=True):
            for (leaf, _), trains in zip(tree.visits, judgement.trains_V, strict=True):
                assert not (trains and tree.turns[leaf].end is End.FAILED), credit


@given(groups)
def test_the_order_of_trees_does_not_matter(group):
    turned = replace(group, trees=group.trees[::-1])
    for credit in CREDITS:
        if credit != TreeRelative(1):  # which are kept is drawn for each place
            before, after = credit(group, 1), credit(turned, 1)[::-1]
            assert flat(after) == pytest.approx(flat(before), abs=1e-9), credit


@given(groups, st.sampled_from(("share", "softmax", "mean", "leaf_mean")))
def test_a_turn_is_worth_no_more_than_the_best_and_no_less_than_the_worst_below(group, weights):
    standing = relative(outcomes(group), population=True)
    for t, (tree, judged) in enumerate(zip(group.trees, TurnValue(weights)(group, 1), strict=True)):
        below = {}
        for leaf, turn in tree.visits:
            if (t, leaf) in standing:
                below.setdefault(turn, []).append(standing[t, leaf])
        for (_, turn), value in zip(tree.visits, judged.advantage_V, strict=True):
            if turn in below and value:
                assert min(below[turn]) - 1e-9 <= value <= max(below[turn]) + 1e-9


returns = st.lists(st.sampled_from((0.0, 0.5, 1.0)), min_size=2, max_size=5)


@given(returns, st.lists(st.integers(1, 4), min_size=5, max_size=5))
def test_on_chains_of_one_length_a_token_is_worth_0_on_average(rewards, sizes):
    # A last turn has nothing local: it is worth what its rollout is, less the level.
    two = [chain(2, reward, size) for reward, size in zip(rewards, sizes, strict=False)]
    rows = rows_of([Group("t", tuple(two))], [LocalGlobal()(Group("t", tuple(two)), 1)])
    last = [row for row in rows if row.turn == 1]
    assert len(last) == len(rewards)
    total = math.fsum(row.advantage * 2 * len(row.action) for row in last)
    assert total == pytest.approx(0.0, abs=1e-9)


@given(groups)
def test_whitened_tokens_have_mean_0_and_variance_1(group):
    rows = Whitened()(rows_of([group], [PrefixMean()(group, 1)]))
    every = [advantage for row in rows for advantage in row.advantages]
    if any(every):
        assert math.fsum(every) == pytest.approx(0.0, abs=1e-6)
        # Divided by sqrt(variance + 1e-8), so a little less than 1 where there was little.
        assert math.fsum(a * a for a in every) / (len(every) - 1) == pytest.approx(1.0, abs=1e-3)

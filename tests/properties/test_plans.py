"""What holds for every plan, whatever the world answers, and for each tree credit on any forest."""

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
from retrograde.credit.whitening import Whiten
from retrograde.data.rows import rows_of
from retrograde.data.tree import ROOT_PARENT, End, Group, Tree
from retrograde.rollouts.chance_tree import ChanceTree
from retrograde.rollouts.entropy_tree import EntropyTree
from retrograde.rollouts.plans import NEW_TREE, Chains, Fork, ReverseTree
from retrograde.rollouts.segment_tree import SegmentTree

from .forests import groups, grown_on_paper

seeds = st.integers(0, 2**32)
entropy_trees = st.builds(
    EntropyTree,
    chains=st.integers(2, 4),
    branches=st.integers(1, 4),
    expansions=st.integers(0, 3),
    answers=st.integers(1, 2),
    penalty=st.sampled_from((0.0, 0.05, 1.0)),
    scoring=st.sampled_from(("paper", "code")),
    expansion=st.sampled_from(("entropy", "random")),
    apart=st.booleans(),
)
chance_trees = st.builds(
    ChanceTree, trees=st.integers(2, 3), nodes=st.integers(1, 4), iterations=st.integers(0, 3)
)
segment_trees = st.builds(
    lambda width, branching, least, more: SegmentTree(width, branching, least, least + more),
    st.integers(2, 9),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(0, 3),
)
reverse_trees = st.builds(
    ReverseTree, trunks=st.integers(1, 3), siblings=st.integers(2, 3), continuations=st.just(0)
)
chains = st.builds(Chains, st.integers(1, 4))


def leaves(group):
    return sum(len(tree.leaves) for tree in group.trees)


@given(reverse_trees | chains, seeds)
def test_plans_that_were_there_before(plan, seed):
    assert all(group.trees for group in grown_on_paper(plan, seed))


@given(entropy_trees, seeds)
def test_an_entropy_tree_has_the_leaves_it_was_asked_for(plan, seed):
    each = plan.expansions * plan.branches * plan.answers
    for group in grown_on_paper(plan, seed):
        assert len(group.trees) == plan.chains
        assert leaves(group) == plan.chains + each * (plan.chains if plan.apart else 1)


@given(chance_trees, seeds)
def test_a_chance_tree_has_the_leaves_it_was_asked_for(plan, seed):
    for group in grown_on_paper(plan, seed):
        assert len(group.trees) == plan.trees
        assert all(len(t.leaves) == plan.iterations * plan.nodes + 1 for t in group.trees)


@given(segment_trees, seeds)
def test_a_segment_tree_is_as_wide_as_it_was_asked_to_be(plan, seed):
    for group in grown_on_paper(plan, seed):
        assert leaves(group) == plan.width
        ends = {tree.turns[leaf].end for tree in group.trees for leaf in tree.leaves}
        assert End.STOPPED not in ends
        answers = [len(children) for tree in group.trees for children in tree.children]
        assert max(answers) <= plan.width


class Unkept:
    """Forks where nothing was kept."""

    forks = True

    def __call__(self, groups, rounds_done, moment):
        first, later = Fork(NEW_TREE, ROOT_PARENT), Fork(0, ROOT_PARENT)
        return [[first if rounds_done == 0 else later] for _ in groups]


class Endless(Unkept):
    """Forks for ever."""

    def __call__(self, groups, rounds_done, moment):
        return [[Fork(NEW_TREE, ROOT_PARENT)] for _ in groups]


class Sly(Unkept):
    """Forks, and says that it does not."""

    forks = False

    def __call__(self, groups, rounds_done, moment):
        first = Fork(NEW_TREE, ROOT_PARENT, keep=True)
        return [[first if rounds_done == 0 else Fork(0, ROOT_PARENT)] for _ in groups]


class Ended(Unkept):
    """Goes on from leaves that are over."""

    def __call__(self, groups, rounds_done, moment):
        first = Fork(NEW_TREE, ROOT_PARENT, keep=True)
        return [
            [first] if rounds_done == 0 else [Fork(0, group.trees[0].leaves[-1])]
            for group in groups
        ]


@pytest.mark.parametrize("plan", [Unkept(), Endless(), Sly(), Ended()], ids=str)
def test_a_plan_that_does_what_it_must_not_is_found_out(plan):
    with pytest.raises(AssertionError):
        grown_on_paper(plan, 1)


CREDITS = [
    *(TurnValue(weights) for weights in ("share", "softmax", "mean", "leaf_mean")),
    *(TurnValue(credit=credit) for credit in ("local", "global", "both", "outcome")),
    TurnValue(once=True),
    TreeRelative(),
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


def flat(judged):
    return [value for judgement in judged for value in judgement.advantage_V]


@pytest.mark.parametrize("credit", CREDITS, ids=str)
@given(groups)
def test_what_is_added_to_every_return_changes_nothing(credit, group):
    before = credit(group, 1)
    after = credit(with_returns(group, lambda reward, _: reward + 2.0), 1)
    assert flat(after) == pytest.approx(flat(before), abs=1e-9)
    assert [j.trains_V for j in after] == [j.trains_V for j in before]


@pytest.mark.parametrize("credit", CREDITS, ids=str)
@given(groups)
def test_equal_returns_give_exactly_nothing(credit, group):
    level = with_returns(group, lambda reward, total: reward + 0.7 - total)
    assert set(flat(credit(level, 1))) == {0.0}


@pytest.mark.parametrize("credit", CREDITS, ids=str)
@given(groups)
def test_failed_rollouts_never_train(credit, group):
    for tree, judgement in zip(group.trees, credit(group, 1), strict=True):
        for (leaf, _), trains in zip(tree.visits, judgement.trains_V, strict=True):
            assert not (trains and tree.turns[leaf].end is End.FAILED)


@pytest.mark.parametrize("credit", [c for c in CREDITS if not isinstance(c, TreeRelative)], ids=str)
@given(groups)
def test_the_order_of_trees_does_not_matter(credit, group):
    turned = replace(group, trees=group.trees[::-1])
    before, after = credit(group, 1), credit(turned, 1)[::-1]
    assert flat(after) == pytest.approx(flat(before), abs=1e-9)


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


@given(groups)
def test_the_level_makes_the_mean_of_a_token_0(group):
    # Undo the division and the local part: V(n) sqrt(leaves) is mean of leaves - level.
    found = outcomes(group)
    if len(found) < 2 or len(set(found.values())) == 1:
        return
    chains_alone = Group(
        "t",
        tuple(
            Tree(
                tuple(
                    replace(tree.turns[turn], parent=i - 1, shared=0, merged_into=None)
                    for i, turn in enumerate(tree.path(leaf))
                )
            )
            for tree in group.trees
            for leaf in tree.leaves
        ),
    )
    # On chains all turns of a rollout but the first have V alone: nothing local.
    rows = rows_of([chains_alone], [LocalGlobal()(chains_alone, 1)])
    value = {row.rollout: row.advantage for row in rows if row.turn > 0}
    if {row.rollout for row in rows} == set(value):
        total = math.fsum(value[row.rollout] * len(row.action) for row in rows)
        assert total == pytest.approx(0.0, abs=1e-9)


@given(groups)
def test_whitened_tokens_have_mean_0_and_variance_1(group):
    rows = Whiten()(rows_of([group], [PrefixMean()(group, 1)]))
    every = [advantage for row in rows for advantage in row.advantages]
    if any(every):
        assert math.fsum(every) == pytest.approx(0.0, abs=1e-6)
        # Divided by sqrt(variance + 1e-8), so a little less than 1 where there was little.
        assert math.fsum(a * a for a in every) / (len(every) - 1) == pytest.approx(1.0, abs=1e-3)
    assert Whiten()(rows) == [
        replace(row, advantage=pytest.approx(row.advantage, abs=1e-3)) for row in rows
    ]

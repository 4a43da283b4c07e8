"""Laws of trees, of what is read off them, and of plans that grow them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrograde.data.rows import Judgement, View, rows_of
from retrograde.data.tree import ROOT_PARENT, Group, shared_length
from retrograde.data.wire import group_from_json, group_to_json
from retrograde.rollouts.plans import (
    NEW_TREE,
    Chains,
    ReverseTree,
    longest_trunk,
    rollouts_grown,
)

from .forests import groups, ids, remembered, trees


@given(remembered())
def test_contexts_are_what_was_shown(account):
    turns = range(len(account.tree.turns))
    assert [account.tree.context(i) for i in turns] == account.contexts


@given(remembered())
def test_histories_are_what_was_said(account):
    turns = range(len(account.tree.turns))
    assert [account.tree.history(i) for i in turns] == account.histories


@given(remembered())
def test_a_turn_appends_exactly_if_its_context_begins_with_all_before(account):
    tree = account.tree
    for i, turn in enumerate(tree.turns):
        if turn.parent == ROOT_PARENT:
            assert not tree.appends(i)
            continue
        before = account.contexts[turn.parent] + tree.turns[turn.parent].action
        assert tree.appends(i) == (account.contexts[i][: len(before)] == before)


@given(trees)
def test_no_token_is_stored_that_the_parent_already_holds_at_its_place(tree):
    for i, turn in enumerate(tree.turns):
        if turn.parent != ROOT_PARENT:
            before = tree.context(turn.parent) + tree.turns[turn.parent].action
            assert turn.shared == shared_length(before, tree.context(i))


@given(ids, ids)
def test_shared_length_against_a_loop(one, other):
    expected = 0
    while expected < min(len(one), len(other)) and one[expected] == other[expected]:
        expected += 1
    assert shared_length(one, other) == expected


@given(trees)
def test_visits_are_the_paths_of_the_leaves(tree):
    assert len(tree.visits) == sum(tree.depths[leaf] + 1 for leaf in tree.leaves)
    for leaf in tree.leaves:
        mine = [turn for of, turn in tree.visits if of == leaf]
        assert mine[-1] == leaf
        assert [tree.turns[turn].parent for turn in mine] == [ROOT_PARENT, *mine[:-1]]
        rewards = math.fsum(tree.turns[turn].reward for turn in mine)
        assert tree.returns[leaf] == pytest.approx(rewards)


@given(groups)
def test_writing_and_reading_back_is_identity(group):
    assert group_from_json(group_to_json(group)) == group


@given(groups, st.sampled_from(View), st.data())
def test_rows_are_the_visits_that_train(group, view, data):
    judged = [
        Judgement(
            tuple(data.draw(st.floats(-1, 1)) for _ in tree.visits),
            tuple(data.draw(st.booleans()) for _ in tree.visits),
        )
        for tree in group.trees
    ]
    rows = iter(rows_of([group], [judged], view))
    for t, (tree, judgement) in enumerate(zip(group.trees, judged, strict=True)):
        for (leaf, turn), advantage, trains in zip(tree.visits, *judgement[:2], strict=True):
            if not trains:
                continue
            row, node = next(rows), tree.turns[turn]
            shown = tree.context(turn) if view is View.EXACT else tree.history(turn)
            assert row.context == shown
            assert (row.action, row.behaviour_logp) == (node.action, node.logprobs)
            assert (row.advantage, row.turn) == (advantage, tree.depths[turn])
            assert row.rollout == (node.policy_version, 0, t, leaf)
    assert next(rows, None) is None


plans = st.one_of(
    st.builds(Chains, st.integers(1, 4)),
    st.builds(
        ReverseTree,
        trunks=st.just(1),
        siblings=st.integers(2, 5),
        continuations=st.integers(0, 2),
        max_rollouts=st.one_of(st.none(), st.integers(1, 20)),
    ),
)
iterations = st.lists(groups, min_size=1, max_size=3)


@given(plans, iterations, st.integers(0, 5))
def test_a_plan_never_continues_a_leaf(plan, grown, rounds_done):
    answer = plan(grown, rounds_done)
    assert len(answer) == len(grown)
    for group, forks in zip(grown, answer, strict=True):
        for fork in forks:
            assert fork.answers >= 1
            if fork.tree == NEW_TREE:
                assert fork.parent == ROOT_PARENT
            elif fork.parent != ROOT_PARENT:
                assert fork.parent not in group.trees[fork.tree].leaves
                assert group.trees[fork.tree].turns[fork.parent].end is None


@given(iterations)
def test_a_reverse_tree_forks_every_boundary_of_every_trunk_once(grown):
    rounds = range(1, longest_trunk(grown) + 2)
    asked = [
        (r, g, fork.tree, fork.parent)
        for r in rounds
        for g, forks in enumerate(ReverseTree()(grown, r))
        for fork in forks
    ]
    trunks = {
        (g, t, tree.turns[turn].parent)
        for g, group in enumerate(grown)
        for t, tree in enumerate(group.trees)
        for turn in tree.trunk
    }
    assert {(g, t, parent) for _, g, t, parent in asked} == trunks
    assert len(asked) == len(trunks)
    # And one round is one absolute turn, in all trees.
    for r, g, t, parent in asked:
        depth = 0 if parent == ROOT_PARENT else grown[g].trees[t].depths[parent] + 1
        assert depth == longest_trunk(grown) - r


@given(groups, st.integers(2, 5), st.integers(1, 20), st.integers(1, 4))
def test_a_cap_is_kept_and_no_sibling_is_alone(group, siblings, cap, rounds_done):
    ((*forks,),) = ReverseTree(siblings=siblings, max_rollouts=cap)([group], rounds_done)
    assert all(2 <= fork.answers <= siblings for fork in forks)
    grown = rollouts_grown(group)
    assert not forks or grown + sum(fork.answers for fork in forks) <= cap


@given(groups)
def test_a_group_without_a_trunk_is_never_forked(group):
    assert ReverseTree()([Group("t"), group], 1)[0] == []

"""What holds for every plan, whatever the world answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrograde.data.tree import ROOT_PARENT, End
from retrograde.rollouts.chance_tree import ChanceTree
from retrograde.rollouts.entropy_tree import EntropyTree
from retrograde.rollouts.plans import NEW_TREE, Chains, Fork, ReverseTree
from retrograde.rollouts.segment_tree import SegmentTree

from .forests import grown_on_paper

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


@pytest.mark.parametrize("plan", [Unkept, Endless, Sly, Ended])
def test_a_plan_that_does_what_it_must_not_is_found_out(plan):
    with pytest.raises(AssertionError):
        grown_on_paper(plan(), 1)

"""Plans are pure: trees in, forks out."""

import pytest

from retrograde.data.tree import ROOT_PARENT, End, Group, Tree, Turn
from retrograde.rollouts.plans import (
    NEW_TREE,
    Chains,
    Fork,
    ReverseTree,
    longest_trunk,
    rollouts_grown,
)


def turn(parent, grown_in=0, end=None, merged_into=None):
    return Turn(parent, 0, (1,), (1,), (2,), (-1.0,), grown_in, 0, end=end, merged_into=merged_into)


def trunk(length):
    chain = [turn(i - 1) for i in range(length - 1)]
    return Tree((*chain, turn(length - 2, end=End.FINISHED)))


def test_chains_are_planted_at_once_and_never_branch():
    groups = [Group("a"), Group("b")]
    assert Chains(3)(groups, 0) == [[Fork(NEW_TREE, ROOT_PARENT)] * 3] * 2
    assert Chains(3)(groups, 1) == [[], []]
    assert not Chains().forks


def test_a_reverse_tree_goes_from_the_last_turn_of_all_to_the_first():
    groups = [Group("a", (trunk(1), trunk(3))), Group("b", (trunk(2),))]
    plan = ReverseTree(siblings=4, continuations=2)
    assert plan.forks
    assert plan(groups, 0) == [[Fork(NEW_TREE, ROOT_PARENT, keep=True)]] * 2
    assert plan(groups, 1) == [[Fork(1, 1, 4, 2)], []]
    assert plan(groups, 2) == [[Fork(1, 0, 4, 2)], [Fork(0, 0, 4, 2)]]
    assert plan(groups, 3) == [
        [Fork(0, ROOT_PARENT, 4, 2), Fork(1, ROOT_PARENT, 4, 2)],
        [Fork(0, ROOT_PARENT, 4, 2)],
    ]
    assert plan(groups, 4) == [[], []]


def test_what_siblings_grow_does_not_make_the_trunk_longer():
    grown = Tree((*trunk(1).turns, turn(-1, 1), turn(1, 1), turn(2, 1, End.FINISHED)))
    assert longest_trunk([Group("a", (grown,))]) == 1
    assert ReverseTree()([Group("a", (grown,))], 2) == [[]]
    assert longest_trunk([]) == 0


def test_a_cap_counts_what_was_carried_to_an_end_of_its_own():
    turns = (
        *trunk(1).turns,
        turn(-1, 1),
        turn(1, 1, End.FINISHED),
        turn(1, 1, End.FINISHED),
        turn(-1, 1, End.MERGED, merged_into=1),
        turn(-1, 1, End.SPARED),
        turn(-1, 1, End.FAILED),
    )
    assert rollouts_grown(Group("a", (Tree(turns),))) == 4


@pytest.mark.parametrize(
    ("cap", "answers"), [(None, [4, 4]), (10, [4, 4]), (9, [4, 3]), (7, [4]), (3, []), (2, [])]
)
def test_a_cap_thins_the_last_boundary(cap, answers):
    groups = [Group("a", (trunk(1), trunk(1)))]
    forks = ReverseTree(trunks=2, siblings=4, max_rollouts=cap)(groups, 1)
    assert [fork.answers for fork in forks[0]] == answers


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"trunks": 0}, "trunks: at least 1 .* got 0"),
        ({"siblings": 1}, "siblings: at least 2 .* got 1"),
        ({"continuations": -1}, "continuations: at least 0 .* got -1"),
        ({"trunks": 4, "max_rollouts": 3}, "max_rollouts: at least the 4 trunks .* got 3"),
    ],
)
def test_a_plan_that_cannot_be_followed_is_refused(options, said):
    with pytest.raises(ValueError, match=said):
        ReverseTree(**options)


def test_no_chains_at_all_are_refused():
    with pytest.raises(ValueError, match=r"rollouts: at least 1 .* got 0"):
        Chains(0)


def test_a_cap_allows_for_every_answer_to_be_continued_several_times():
    plan = ReverseTree(siblings=4, continuations=3, max_rollouts=10)
    (grown,) = plan([Group("a", (trunk(2),))], 1)
    (fork,) = grown
    assert fork.answers == 3  # one trunk is grown; 9 are left, 3 for each answer

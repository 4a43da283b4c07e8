"""RTPO, arXiv:2608.18682, Algorithm 1: a sweep over two small trees, worked by hand."""

import pytest
import torch

from retrograde.algorithms.rtpo import rtpo
from retrograde.credit.sibling_mean import SiblingMean, departures, value_of
from retrograde.data.batch import ActionTokens
from retrograde.data.rows import View, rows_of
from retrograde.data.tree import ROOT_PARENT, End, Group, Tree, Turn
from retrograde.rollouts.plans import NEW_TREE, Fork, ReverseTree, rollouts_grown

DONE, LOST = End.FINISHED, End.FAILED


def turn(parent, reward=0.0, end=None, grown_in=0, *, tokens=1, into=None):
    """A turn of `tokens` action tokens, each sampled with probability 1/e."""
    return Turn(
        parent=parent,
        shared=0,
        fresh=(9,),
        observation=(9,),
        action=tuple(range(tokens)),
        logprobs=(-1.0,) * tokens,
        grown_in=grown_in,
        policy_version=grown_in,
        reward=reward,
        end=end,
        merged_into=into,
    )


def judged(*turns, grown_in=1):
    """Advantage of each turn that trains."""
    tree = Tree(turns)
    (judgement,) = SiblingMean()(Group("t", (tree,)), grown_in)
    visits = zip(tree.visits, judgement.advantage_V, judgement.trains_V, strict=True)
    trained = [(visited, advantage) for (_, visited), advantage, trains in visits if trains]
    assert len(dict(trained)) == len(trained), "a turn trains once"
    return dict(trained)


# Two turns, three siblings of the second one in round 1, three of the first one in round 2:
#
#   trunk     0 ─── 1 (1)
#   round 1   0 ─┬─ 2 (1)
#                ├─ 3 (0)
#                └─ 4 (0)
#   round 2   5 ─── 6 (1)
#             7 ─── 8 (0)
#             9 (0.5), over at once
SWEEP = (
    turn(ROOT_PARENT),
    turn(0, 1.0, DONE),
    turn(0, 1.0, DONE, 1),
    turn(0, 0.0, DONE, 1),
    turn(0, 0.0, DONE, 1),
    turn(ROOT_PARENT, grown_in=2),
    turn(5, 1.0, DONE, 2),
    turn(ROOT_PARENT, grown_in=2),
    turn(7, 0.0, DONE, 2),
    turn(ROOT_PARENT, 0.5, DONE, 2),
)


def test_the_phase_of_the_last_turn():
    # Mean of 1, 0, 0 is 1/3; the trunk's 1 is not in it.
    assert judged(*SWEEP, grown_in=1) == pytest.approx({2: 2 / 3, 3: -1 / 3, 4: -1 / 3})


def test_the_phase_of_the_first_turn():
    # Mean of 1, 0, 1/2 is 1/2. The continuations 6 and 8 give no gradient.
    assert judged(*SWEEP, grown_in=2) == pytest.approx({5: 0.5, 7: -0.5, 9: 0.0})


def test_the_trunk_never_trains():
    assert judged(*SWEEP, grown_in=0) == {}
    assert [departures(Tree(SWEEP), r) for r in range(4)] == [(), (2, 3, 4), (5, 7, 9), ()]


def test_what_the_trunk_earned_before_the_boundary_cancels():
    # 0.5 was earned on the way by all: 1.5 and 0.5 around 1.
    assert judged(turn(ROOT_PARENT, 0.5), turn(0, 1.0, DONE), turn(0, 1.0, DONE, 1),
                  turn(0, 0.0, DONE, 1)) == pytest.approx({2: 0.5, 3: -0.5})  # fmt: skip


# Siblings 2 to 6 behind turn 0 in one round, continued twice for each state:
#
#   0 ─┬─ 1 (0)                            trunk
#      ├─ 2 (+.25) ─┬─ 7 (1)
#      │            └─ 8 (0)               .25 + (1 + 0) / 2 = .75
#      ├─ 3 (0)  merged into 2               0 + (1 + 0) / 2 = .5
#      ├─ 4 (1)                                                1
#      ├─ 5      failed                                        not counted
#      └─ 6 (0) ──┬─ 9      failed                             not counted
#                 └─ 10 (0) truncated        0 + 0           = 0
MERGED = (
    turn(ROOT_PARENT),
    turn(0, 0.0, DONE),
    turn(0, 0.25, None, 1),
    turn(0, 0.0, End.MERGED, 1, into=2),
    turn(0, 1.0, DONE, 1),
    turn(0, 0.0, LOST, 1),
    turn(0, 0.0, None, 1),
    turn(2, 1.0, DONE, 1),
    turn(2, 0.0, DONE, 1),
    turn(6, 0.0, LOST, 1),
    turn(6, 0.0, End.TRUNCATED, 1),
)


def test_merged_siblings_share_continuations_and_keep_their_own_reward():
    values = {i: value_of(Tree(MERGED), i) for i in range(2, 7)}
    assert values == {2: 0.75, 3: 0.5, 4: 1.0, 5: None, 6: 0.0}
    # The mean is 2.25 / 4 = .5625.
    expected = {2: 0.1875, 3: -0.0625, 4: 0.4375, 6: -0.5625}
    assert judged(*MERGED) == pytest.approx(expected)


def test_a_sibling_whose_continuations_all_failed_is_left_out():
    # 2 is gone, so 3 and 4 are compared alone: 1 and 0 around .5.
    assert judged(
        turn(ROOT_PARENT),
        turn(0, 0.0, DONE),
        turn(0, 0.0, None, 1),
        turn(0, 1.0, DONE, 1),
        turn(0, 0.0, DONE, 1),
        turn(2, 0.0, LOST, 1),
    ) == pytest.approx({3: 0.5, 4: -0.5})


def test_who_was_merged_into_a_sibling_whose_continuations_failed_is_left_out_too():
    assert judged(
        turn(ROOT_PARENT),
        turn(0, 0.0, DONE),
        turn(0, 0.0, None, 1),
        turn(0, 0.0, End.MERGED, 1, into=2),
        turn(0, 1.0, DONE, 1),
        turn(2, 0.0, LOST, 1),
    ) == {4: 0.0}


def test_spared_siblings_differ_by_what_they_earned_on_the_way():
    # All lead to one state: .25 and .75 around .5, whatever follows.
    assert judged(
        turn(ROOT_PARENT),
        turn(0, 0.0, DONE),
        turn(0, 0.25, End.SPARED, 1),
        turn(0, 0.75, End.MERGED, 1, into=2),
    ) == pytest.approx({2: -0.25, 3: 0.25})


def test_spared_siblings_that_earned_the_same_get_exactly_nothing():
    trained = judged(
        turn(ROOT_PARENT),
        turn(0, 0.0, DONE),
        turn(0, 0.1, End.SPARED, 1),
        turn(0, 0.1, End.MERGED, 1, into=2),
        turn(0, 0.1, End.MERGED, 1, into=2),
    )
    assert trained == {2: 0.0, 3: 0.0, 4: 0.0}


def test_siblings_that_earned_the_same_by_different_ways_get_exactly_nothing():
    # .1 + .2 and .3 differ in floating point, by 6e-17, and that is no difference.
    trained = judged(
        turn(ROOT_PARENT),
        turn(0, 0.0, DONE),
        turn(0, 0.1, None, 1),
        turn(0, 0.3, DONE, 1),
        turn(2, 0.2, DONE, 1),
    )
    assert trained == {2: 0.0, 3: 0.0}


def test_siblings_of_two_boundaries_in_one_round_are_not_mixed():
    # Two trees, forked at the same turn in the same phase: each has its own mean.
    one = Tree((turn(ROOT_PARENT), turn(0, 1.0, DONE), *(turn(0, r, DONE, 1) for r in (1.0, 0.0))))
    two = Tree((turn(ROOT_PARENT), turn(0, 1.0, DONE), *(turn(0, r, DONE, 1) for r in (1.0, 1.0))))
    first, second = SiblingMean()(Group("t", (one, two)), 1)
    trained = [
        [a for a, trains in zip(j.advantage_V, j.trains_V, strict=True) if trains]
        for j in (first, second)
    ]
    assert trained == [[0.5, -0.5], [0.0, 0.0]]


def test_siblings_of_two_boundaries_of_one_tree_are_not_mixed_either():
    # A plan may fork a tree twice in a round: 1 and 0 behind turn 0, 1 and .5 at the root.
    assert judged(
        turn(ROOT_PARENT),
        turn(0, 0.0, DONE),
        *(turn(0, r, DONE, 1) for r in (1.0, 0.0)),
        *(turn(ROOT_PARENT, r, DONE, 1) for r in (1.0, 0.5)),
    ) == pytest.approx({2: 0.5, 3: -0.5, 4: 0.25, 5: -0.25})


def update(*, paper_mean):
    """The paper's G = 3: two siblings, of two and three tokens, returns 1 and 0."""
    algorithm = rtpo(siblings=2, continuations=0, mean=paper_mean)
    group = Group(
        "t",
        (
            Tree(
                (
                    turn(ROOT_PARENT),
                    turn(0, 1.0, DONE),
                    turn(0, 1.0, DONE, 1, tokens=2),
                    turn(0, 0.0, DONE, 1, tokens=3),
                )
            ),
        ),
    )
    rows = rows_of([group], [algorithm.credit(group, 1)], algorithm.view)
    assert [(row.turn, row.advantage, len(row.action)) for row in rows] == [
        (1, 0.5, 2),
        (1, -0.5, 3),
    ]
    tokens = ActionTokens.of(rows)
    return algorithm.loss, tokens, algorithm.loss.weights(tokens)


@pytest.mark.parametrize(
    ("mean", "first", "second"),
    [
        # J = 1/2 (A_1 / 2 sum + A_2 / 3 sum): .5 * .5 / 2 = 1/8 and .5 * -.5 / 3 = -1/12.
        ("turn", -1 / 8, 1 / 12),
        # Without the division by length: .5 * .5 = 1/4.
        ("sum", -1 / 4, 1 / 4),
    ],
)
def test_the_first_gradient(mean, first, second):
    loss, tokens, weight_T = update(paper_mean=mean)
    logp_T = tokens.behaviour_logp.clone().requires_grad_()
    loss(logp_T, tokens, weight_T).backward()
    expected_T = torch.tensor([first] * 2 + [second] * 3)
    torch.testing.assert_close(logp_T.grad, expected_T)


def test_the_loss_away_from_the_first_step():
    # Ratios 1.5, 1 under A = .5; 1.5, .5, 1 under A = -.5; the bound is .2 on either side.
    # Row 1: min(.75, .6) = .6 and .5, mean .55. Row 2: -.75, min(-.25, -.4) = -.4, -.5, mean
    # -.55. Their mean is 0.
    loss, tokens, weight_T = update(paper_mean="turn")
    ratio_T = torch.tensor([1.5, 1.0, 1.5, 0.5, 1.0])
    logp_T = (tokens.behaviour_logp + ratio_T.log()).requires_grad_()
    value = loss(logp_T, tokens, weight_T)
    assert float(value.detach()) == pytest.approx(0.0, abs=1e-7)
    # Clipped: the first token and the fourth. Others: -ratio * A * weight.
    value.backward()
    expected_T = torch.tensor([0.0, -1 / 8, 1.5 / 12, 0.0, 1 / 12])
    torch.testing.assert_close(logp_T.grad, expected_T)


def trunk(length):
    turns = [turn(ROOT_PARENT if i == 0 else i - 1) for i in range(length - 1)]
    return Tree((*turns, turn(length - 2 if length > 1 else ROOT_PARENT, 1.0, DONE)))


def with_siblings(tree, parent, count, grown_in, end=DONE):
    first = len(tree.turns)
    new = [turn(parent, 0.0, end, grown_in)]
    while len(new) < count:
        into = first if end is End.SPARED else None
        new.append(turn(parent, 0.0, End.MERGED if into else end, grown_in, into=into))
    return Tree((*tree.turns, *new))


def test_turns_are_counted_from_the_first_and_across_groups():
    # Trunks of 3 and 1 turns, and of 2 in another group: K = 3. Round r forks turn 3 - r of
    # whoever has it, behind the turn before.
    groups = [Group("a", (trunk(3), trunk(1))), Group("b", (trunk(2),))]
    plan = ReverseTree(trunks=1, siblings=2)
    assert plan(groups, 1) == [[Fork(0, 1, 2)], []]
    assert plan(groups, 2) == [[Fork(0, 0, 2)], [Fork(0, 0, 2)]]
    root = ROOT_PARENT
    assert plan(groups, 3) == [[Fork(0, root, 2), Fork(1, root, 2)], [Fork(0, root, 2)]]
    assert plan(groups, 4) == [[], []]


def test_siblings_that_live_longer_than_their_trunk_do_not_move_the_turns():
    # Turns 2 and 3 of a sibling are no trunk: K stays 2.
    tree = Tree((*trunk(2).turns, turn(ROOT_PARENT, grown_in=2), turn(2, grown_in=2),
                 turn(3, 0.0, DONE, 2)))  # fmt: skip
    assert ReverseTree()([Group("a", (tree,))], 1) == [[Fork(0, 0, 2)]]


def test_round_0_plants_the_trunks_and_keeps_their_boundaries():
    plan = ReverseTree(trunks=2, siblings=3)
    expected = [Fork(NEW_TREE, ROOT_PARENT, 1, 0, keep=True)] * 2
    assert plan([Group("a"), Group("b")], 0) == [expected, expected]


def test_forks_say_how_often_a_state_is_continued():
    plan = ReverseTree(siblings=3, continuations=2)
    assert plan([Group("a", (trunk(2),))], 1) == [[Fork(0, 0, 3, 2)]]


def test_a_cap_thins_a_boundary_and_leaves_out_what_would_be_alone():
    # Three trunks; 3 siblings each would make 12. A cap of 9 leaves 6: 3, 3 and none. A cap of
    # 8 leaves 5: 3, then 2. A cap of 7 leaves 4: 3, and 1 would be alone.
    group = Group("a", (trunk(1),) * 3)
    root = ROOT_PARENT
    for cap, expected in ((12, [3, 3, 3]), (9, [3, 3]), (8, [3, 2]), (7, [3]), (4, [])):
        plan = ReverseTree(trunks=3, siblings=3, max_rollouts=cap)
        forks = [Fork(i, root, answers) for i, answers in enumerate(expected)]
        assert plan([group], 1) == [forks]


def test_a_cap_counts_rounds_before_and_only_what_was_carried_to_its_own_end():
    tree = trunk(2)
    assert rollouts_grown(Group("a", (tree,))) == 1
    grown = with_siblings(tree, 0, 3, 1)
    assert rollouts_grown(Group("a", (grown,))) == 4
    spared = with_siblings(tree, 0, 3, 1, End.SPARED)
    assert rollouts_grown(Group("a", (spared,))) == 1
    plan = ReverseTree(siblings=3, max_rollouts=6)
    assert plan([Group("a", (grown,))], 2) == [[Fork(0, ROOT_PARENT, 2)]]
    assert plan([Group("a", (spared,))], 2) == [[Fork(0, ROOT_PARENT, 3)]]


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"siblings": 1}, "at least 2 are needed.*got 1"),
        ({"trunks": 0}, "trunks: at least 1.*got 0"),
        ({"continuations": -1}, "continuations: at least 0.*got -1"),
        ({"trunks": 4, "max_rollouts": 3}, "at least the 4 trunks.*got 3"),
    ],
)
def test_a_plan_that_cannot_work_is_refused(wrong, match):
    with pytest.raises(ValueError, match=match):
        ReverseTree(**wrong)


# A window: turn 1 is shown the opening (7, 8) and the last result (30), not the thought and
# the first answer's other tokens.
#
#   turn 0   shown 7 8         says 20 21
#   turn 1   shown 7 8 30      says 22        (flat: 7 8 20 21 30)
#   turn 2   shown 7 8 31      says 23        (flat: 7 8 20 21 30 22 31)
WINDOWED = Tree(
    (
        Turn(ROOT_PARENT, 0, (7, 8), (7, 8), (20, 21), (-0.1, -0.2), 0, 0),
        Turn(0, 2, (30,), (30,), (22,), (-0.3,), 0, 0, 1.0, DONE),
        Turn(0, 2, (30,), (30,), (24,), (-0.5,), 2, 4),
        Turn(2, 2, (31,), (31,), (23,), (-0.4,), 2, 4, 1.0, DONE),
        Turn(0, 2, (30,), (30,), (25, 26), (-0.6, -0.7), 2, 4, 0.5, DONE),
    )
)


@pytest.mark.parametrize(
    ("view", "context"),
    [
        (View.EXACT, (7, 8, 30)),
        (View.FLAT_RECOMPUTED, (7, 8, 20, 21, 30)),
        (View.FLAT_SAMPLED, (7, 8, 20, 21, 30)),
    ],
)
def test_rows_of_a_windowed_tree(view, context):
    group = Group("t", (WINDOWED,))
    rows = rows_of([Group("none"), group], [[], SiblingMean()(group, 2)], view)
    assert [row.context for row in rows] == [context, context]
    assert [row.action for row in rows] == [(24,), (25, 26)]
    assert [row.behaviour_logp for row in rows] == [(-0.5,), (-0.6, -0.7)]
    assert [row.advantage for row in rows] == [0.25, -0.25]
    assert [row.turn for row in rows] == [1, 1]
    assert [row.group for row in rows] == [1, 1]
    # Version 4, group 1, tree 0, and the leaf of each.
    assert [row.rollout for row in rows] == [(4, 1, 0, 3), (4, 1, 0, 4)]


def test_contexts_of_a_windowed_tree():
    assert [WINDOWED.context(i) for i in (0, 1, 3)] == [(7, 8), (7, 8, 30), (7, 8, 31)]
    assert WINDOWED.history(3) == (7, 8, 20, 21, 30, 24, 31)
    assert not any(WINDOWED.appends(i) for i in range(5))

"""TreePO, arXiv:2508.17445: growth by turns, credit by shared pasts, whitening, by hand."""

import math
from collections import Counter

import pytest

from retrograde.algorithms.treepo import treepo
from retrograde.credit.prefix_mean import PrefixMean
from retrograde.credit.whitening import Whitened
from retrograde.data.rows import Judgement, rows_of
from retrograde.losses.policy import Mean
from retrograde.rollouts.plans import NEW_TREE, Fork, Moment
from retrograde.rollouts.segment_tree import SegmentTree

from .grown import DONE, LOST, ROOT, STOPPED, by_leaf, chain, group, turn

# tree 0   0 ─┬─ 1 ─┬─ 3 (1)       tree 1   0 (1)
#             │     └─ 4 (0)
#             └─ 2 (0)
#
# Means: of all four 1/2, below 0.0 1/3, below 0.1 1/2. A leaf alone is no comparison.
DRAWN = group(
    (turn(ROOT), turn(0), turn(0, 0.0, DONE), turn(1, 1.0, DONE), turn(1, 0.0, DONE)),
    (turn(ROOT, 1.0, DONE),),
)


def test_the_mean_over_pasts_that_are_shared():
    # In order: (1/2 + 2/3 + 1/2) / 3, (-1/2 - 1/3 - 1/2) / 3, (-1/2 - 1/3) / 2, 1/2.
    expected = {(0, 3): 5 / 9, (0, 4): -4 / 9, (0, 2): -5 / 12, (1, 0): 1 / 2}
    assert by_leaf(PrefixMean(), DRAWN) == pytest.approx(expected)


def test_pasts_weighted_by_who_shares_them():
    # In order: (4 * 1/2 + 3 * 2/3 + 2 * 1/2) / 9, (-4/2 - 3/3 - 2/2) / 9, (-4/2 - 3/3) / 7, 1/2.
    expected = {(0, 3): 5 / 9, (0, 4): -4 / 9, (0, 2): -3 / 7, (1, 0): 1 / 2}
    assert by_leaf(PrefixMean("size"), DRAWN) == pytest.approx(expected)


def test_a_leaf_alone_would_dilute_the_rest_if_it_counted():
    # With its own past of one rollout tree 1's would be (1/2 + 0) / 2.
    assert by_leaf(PrefixMean(), DRAWN)[1, 0] == 0.5


def test_a_failed_rollout_counts_nowhere():
    # Without 0.4: 1, 0, 1, mean 2/3; below 0.0 1/2; below 0.1 a single one.
    failed = group((*DRAWN.trees[0].turns[:4], turn(1, 0.0, LOST)), DRAWN.trees[1])
    found = by_leaf(PrefixMean(), failed)
    assert found == pytest.approx({(0, 3): 5 / 12, (0, 2): -7 / 12, (1, 0): 1 / 3})
    assert by_leaf(PrefixMean(), group(chain(1, 0.0, LOST))) == {}


def test_equal_returns_give_exactly_nothing():
    trees = (turn(ROOT, 0.1), turn(0, 0.2, DONE), turn(0, 0.2, DONE)), (turn(ROOT, 0.3, DONE),)
    assert set(by_leaf(PrefixMean(), group(*trees)).values()) == {0.0}
    assert by_leaf(PrefixMean(), group(chain(2, 1.0))) == {(0, 1): 0.0}


def rows(*advantages_and_tokens):
    """A row for each pair of an advantage and a number of tokens."""
    judged = group(tuple(turn(ROOT, 0.0, DONE, tokens=n) for _, n in advantages_and_tokens))
    advantages = tuple(advantage for advantage, _ in advantages_and_tokens)
    return rows_of([judged], [[Judgement(advantages, (True,) * len(advantages))]])


def whitened(*advantages_and_tokens):
    return [row.advantage for row in Whitened()(rows(*advantages_and_tokens))]


def test_whitening_counts_tokens():
    # 1, 1, -1: mean 1/3, variance (4/9 + 4/9 + 16/9) / 2 = 4/3. Rows alone: +-.7071.
    assert whitened((1.0, 2), (-1.0, 1)) == pytest.approx([1 / math.sqrt(3), -2 / math.sqrt(3)])


def test_whitening_takes_each_token_of_a_row():
    assert whitened(((1.0, 1.0, -1.0), 3)) == [
        pytest.approx((1 / math.sqrt(3), 1 / math.sqrt(3), -2 / math.sqrt(3)))
    ]


def test_whitening_of_equal_advantages_gives_exactly_nothing():
    assert whitened((0.1 + 0.2, 2), (0.3, 1)) == [0.0, 0.0]
    assert whitened((0.7, 1)) == [0.0]
    assert Whitened()([]) == []


def test_whitening_moves_even_what_stood_at_0():
    # 0, 0, 3 (one token each): mean 1, variance 3: -1 / sqrt 3 for both.
    assert whitened((0.0, 1), (0.0, 1), (3.0, 1))[0] == pytest.approx(-1 / math.sqrt(3))


def test_whitening_keeps_all_else():
    before = rows((1.0, 2), (-1.0, 1))
    after = Whitened()(before)
    assert [row.action for row in after] == [row.action for row in before]
    assert [row.rollout for row in after] == [row.rollout for row in before]


def plan_of(width, first=(2, 2), branching=2):
    return SegmentTree(width, branching, *first)


def waiting():
    """A first turn that waits to be gone on with."""
    return (turn(ROOT, 0.0, STOPPED),)


def test_the_first_split_is_drawn():
    plan = SegmentTree()
    count = Counter(len(plan([group()], 0, Moment(seed=seed))[0]) for seed in range(700))
    assert set(count) == set(range(2, 9))
    assert all(50 < times < 150 for times in count.values())  # 100 each
    (forks,) = plan([group()], 0)
    assert set(forks) == {Fork(NEW_TREE, ROOT, keep=True, turns=1)}
    first, second = zip(*(plan([group()] * 2, 0, Moment(seed=s)) for s in range(20)), strict=True)
    assert [len(a) for a in first] != [len(b) for b in second]  # tasks draw apart


def test_a_first_split_as_wide_as_allowed_is_chains():
    assert plan_of(3, (8, 8))([group()], 0) == [[Fork(NEW_TREE, ROOT)] * 3]


def test_everyone_branches_while_the_width_allows():
    both = group(waiting(), waiting())
    # 2 + 2 = 4 of 5: each twice, and on for a turn.
    assert plan_of(5)([both], 1) == [
        [Fork(t, 0, 2, keep=True, turns=1) for t in (0, 1)],
    ]
    # 4 of 4: the width is full, so on to the end.
    assert plan_of(4)([both], 1) == [[Fork(0, 0, 2), Fork(1, 0, 2)]]
    assert plan_of(8, branching=4)([both], 1) == [[Fork(0, 0, 4), Fork(1, 0, 4)]]


def test_if_not_all_can_branch_chance_says_who_does():
    both = group(waiting(), waiting())
    count = Counter(
        tuple(fork.answers for fork in plan_of(3)([both], 1, Moment(seed=seed))[0])
        for seed in range(200)
    )
    assert set(count) == {(1, 2), (2, 1)}
    assert min(count.values()) > 60


def test_what_has_ended_leaves_its_share_to_the_others():
    # One leaf is over, one waits, 3 of 5 are left: twice, then 2 of 3 again.
    mixed = group(chain(1), waiting())
    assert plan_of(5)([mixed], 1) == [[Fork(1, 0, 2, keep=True, turns=1)]]
    assert plan_of(2)([mixed], 1) == [[Fork(1, 0)]]


def test_where_all_have_ended_too_early_the_missing_ones_restart_at_any_turn():
    over = group(chain(3), chain(1))
    count, starts = Counter(), SegmentTree(6, 2, 2, 2)
    for seed in range(500):
        (forks,) = starts([over], 5, Moment(seed=seed))
        assert sum(fork.answers for fork in forks) == 4
        assert not any(fork.keep or fork.turns for fork in forks)
        count.update({(fork.tree, fork.parent): fork.answers for fork in forks})
    # 2000 draws: a rollout first, then one of its turns: 1000 at the only turn of tree 1, a
    # third of 1000 before each turn of tree 0. Behind a leaf never.
    assert set(count) == {(0, ROOT), (0, 0), (0, 1), (1, ROOT)}
    assert 850 < count[1, ROOT] < 1150
    assert all(260 < count[0, turn] < 410 for turn in (ROOT, 0, 1))


def test_failed_rollouts_count_so_that_growing_ends():
    lost = group(chain(1, 0.0, LOST), chain(1, 0.0, LOST))
    assert plan_of(2)([lost], 1) == [[]]
    assert plan_of(3)([lost], 1) in ([[Fork(0, ROOT)]], [[Fork(1, ROOT)]])


def test_a_grown_task_grows_no_more():
    assert plan_of(2)([group(chain(2), chain(1))], 3) == [[]]


def test_the_papers_shape_and_loss():
    algorithm = treepo(width=16, first_most=8)
    assert algorithm.grow == SegmentTree(16, 2, 2, 8)
    assert algorithm.grow.forks
    loss = algorithm.loss
    assert (loss.clip_low, loss.clip_high, loss.dual_clip) == (0.2, 0.28, 10.0)
    assert loss.mean is Mean.TOKEN
    assert algorithm.normalise == Whitened()
    assert treepo(width=8, first_most=4) == treepo() != algorithm


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"width": 1}, "width: at least 2 .* got 1"),
        ({"branching": 0}, "branching: at least 1 .* got 0"),
        ({"first_least": 0}, "first_least: at least 1 .* got 0"),
        ({"first_least": 4, "first_most": 3}, "first_most: at least first_least=4 .* got 3"),
    ],
)
def test_trees_that_cannot_be_grown_are_refused(options, said):
    with pytest.raises(ValueError, match=said):
        treepo(**options)

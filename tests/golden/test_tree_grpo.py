"""Tree-GRPO, arXiv:2509.21240: random nodes, two levels of comparison, worked by hand."""

import math
from collections import Counter
from dataclasses import replace

import pytest

from retrograde.algorithms.tree_grpo import tree_grpo
from retrograde.credit.tree_relative import TreeRelative
from retrograde.losses.policy import Level, Mean, Surrogate
from retrograde.rollouts.chance_tree import ChanceTree
from retrograde.rollouts.plans import NEW_TREE, Fork, Moment

from .grown import DONE, LOST, ROOT, by_leaf, chain, group, turn

# tree 0   0 ─┬─ 1 (1)         tree 1   0 ─┬─ 1 (1)
#             └─ 2 (0)                     ├─ 2 (1)
#          3 (0)                           └─ 3 (1)
#
# Within tree 0: mean 1/3, variance (4/9 + 1/9 + 1/9) / 2 = 1/3: 1 stands at (2/3) / .57735 =
# 1.15470 and 0 at -.57735. Within tree 1 all are equal: 0.
# In the task: 1, 0, 0, 1, 1, 1, mean 2/3, variance (4 * 1/9 + 2 * 4/9) / 5 = 4/15: 1 stands at
# (1/3) / .51640 = .64550 and 0 at -1.29099.
DRAWN = group(
    (turn(ROOT), turn(0, 1.0, DONE), turn(0, 0.0, DONE, 1), turn(ROOT, 0.0, DONE, 1)),
    (turn(ROOT), turn(0, 1.0, DONE), turn(0, 1.0, DONE, 1), turn(0, 1.0, DONE, 1)),
)


def test_within_the_tree_plus_within_the_task():
    high, low = 1.15470 + 0.64550, -0.57735 - 1.29099
    expected = {(0, 1): high, (0, 2): low, (0, 3): low}
    expected |= {(1, leaf): 0.64550 for leaf in (1, 2, 3)}
    assert by_leaf(TreeRelative(), DRAWN) == pytest.approx(expected, abs=2e-5)


def test_the_deviation_is_that_of_a_sample_plus_1e_6():
    # 1 and 0 in one tree: .5 / (sqrt(.5) + 1e-6) on both levels.
    pair = group((turn(ROOT, 1.0, DONE), turn(ROOT, 0.0, DONE, 1)))
    each = 2 * 0.5 / (math.sqrt(0.5) + 1e-6)
    assert by_leaf(TreeRelative(), pair) == pytest.approx({(0, 0): each, (0, 1): -each}, rel=1e-9)


def test_a_tree_of_one_rollout_adds_nothing_of_its_own():
    # The code would add the return itself: mean 0, deviation 1.
    found = by_leaf(TreeRelative(), group(chain(2, 1.0), chain(1, 0.0)))
    each = 0.5 / (math.sqrt(0.5) + 1e-6)
    assert found == pytest.approx({(0, 1): each, (1, 0): -each})
    assert by_leaf(TreeRelative(), group(chain(2, 1.0))) == {(0, 1): 0.0}


def test_equal_returns_give_exactly_nothing():
    trees = (turn(ROOT, 0.1), turn(0, 0.2, DONE), turn(0, 0.2, DONE)), (turn(ROOT, 0.3, DONE),)
    assert set(by_leaf(TreeRelative(), group(*trees)).values()) == {0.0}


def test_what_is_pruned_neither_trains_nor_counts():
    times = Counter()
    for number in range(300):
        drawn = replace(DRAWN, task=f"task-{number}")
        found = by_leaf(TreeRelative(keep=2), drawn)
        assert found == by_leaf(TreeRelative(keep=2), drawn)
        times.update(list(found))
        kept = [[leaf for t, leaf in found if t == tree] for tree in (0, 1)]
        assert [len(leaves) for leaves in kept] == [2, 2]
        # As if the others had never been grown: the same returns, a chain each.
        returns = [[drawn.trees[t].returns[leaf] for leaf in kept[t]] for t in (0, 1)]
        alone = group(*(tuple(turn(ROOT, r, DONE) for r in mine) for mine in returns))
        assert list(found.values()) == list(by_leaf(TreeRelative(keep=2), alone).values())
    # 2 of 3, 300 times: 200 each, give or take 5 standard deviations of about 8.
    assert len(times) == 6
    assert all(160 < count < 240 for count in times.values())


def test_which_are_pruned_depends_on_what_was_said():
    def saying(tokens):
        return group(tuple(turn(ROOT, r, DONE, tokens=tokens) for r in (1.0, 0.0, 0.5, 0.25)))

    kept = {tuple(by_leaf(TreeRelative(keep=2), saying(n))) for n in range(1, 9)}
    assert len(kept) > 1


def test_a_failed_rollout_is_gone_before_others_are_pruned():
    failed = group((turn(ROOT, 0.0, LOST), *(turn(ROOT, r, DONE) for r in (1.0, 0.0))))
    assert set(by_leaf(TreeRelative(keep=2), failed)) == {(0, 1), (0, 2)}


# Nodes that can be continued: the root of each tree and the turns that are no leaves.
GROWN = group(chain(3), chain(1))


def test_nodes_are_drawn_with_replacement_among_the_root_and_turns_that_are_no_leaves():
    count, pairs = Counter(), Counter()
    for seed in range(600):
        (forks,) = ChanceTree(2, 2, 1)([GROWN], 1, Moment(seed=seed))
        assert sum(fork.answers for fork in forks if fork.tree == 0) == 2
        assert [fork for fork in forks if fork.tree == 1] == [Fork(1, ROOT, 2)]
        mine = [fork.parent for fork in forks if fork.tree == 0 for _ in range(fork.answers)]
        count.update(mine)
        pairs[len(set(mine))] += 1
    # 1200 draws over ROOT, 0 and 1: 400 each; the leaf 2 never. One pair in three is a double.
    assert set(count) == {ROOT, 0, 1}
    assert all(320 < times < 480 for times in count.values())
    assert 140 < pairs[1] < 260


def test_chains_then_iterations_then_nothing():
    plan = ChanceTree(2, 2, 2)
    assert plan([group()], 0) == [[Fork(NEW_TREE, ROOT, keep=True)] * 2]
    assert all(fork.keep for fork in plan([GROWN], 1)[0])
    assert not any(fork.keep for fork in plan([GROWN], 2)[0])
    assert plan([GROWN], 3) == [[]]
    assert plan.forks
    assert not ChanceTree(2, 2, 0).forks


def test_the_papers_shape_and_loss():
    algorithm = tree_grpo()
    assert algorithm.grow == ChanceTree(2, 2, 1)
    assert algorithm.credit == TreeRelative(3)
    loss = algorithm.loss
    assert (loss.clip_low, loss.clip_high, loss.dual_clip) == (0.2, 0.2, 3.0)
    assert (loss.mean, loss.ratio, loss.surrogate) == (Mean.TOKEN, Level.TOKEN, Surrogate.CLIPPED)
    assert tree_grpo(keep=3) == algorithm


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"trees": 0}, "trees: at least 1 .* got 0"),
        ({"nodes": 0}, "nodes: at least 1 .* got 0"),
        ({"iterations": -1}, "iterations: at least 0 .* got -1"),
        ({"trees": 1, "iterations": 0}, "trees: at least 2 .* got 1"),
        ({"keep": 0}, "keep: at least 1 .* got 0"),
        ({"dual_clip": 1.0}, "dual_clip: above 1 .* got 1"),
    ],
)
def test_trees_that_cannot_be_grown_are_refused(options, said):
    with pytest.raises(ValueError, match=said):
        tree_grpo(**options)

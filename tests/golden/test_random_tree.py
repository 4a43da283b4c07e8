"""The random tree of AT2PO's ablation, arXiv:2601.04767, by hand."""

from dataclasses import replace

import pytest

from retrograde.algorithms.at2po import at2po
from retrograde.algorithms.random_tree import random_tree
from retrograde.losses.policy import Level, Mean
from retrograde.rollouts.plans import NEW_TREE, Moment

from .grown import DONE, ROOT, by_leaf, group, turn

# Two chains of two turns; the second turn of the first tree was answered anew in round 1.
#
#   tree 0   0 ─┬─ 1 (1)          tree 1   0 ─── 1 (0)
#               └─ 2 (0)
GROWN = group(
    (turn(ROOT), turn(0, 1.0, DONE), turn(0, 0.0, DONE, 1)),
    (turn(ROOT), turn(0, 0.0, DONE)),
)


def test_leaves_are_judged_like_rollouts_of_a_group():
    # Returns 1, 0, 0: mean 1/3, population variance 2/9, deviation .471405. The leaf with 1 gets
    # (2/3) / .471405 = 1.414211, each other one (-1/3) / .471405 = -.707105; so does every turn
    # above it, turn 0 of tree 0 once with each leaf below.
    advantage = by_leaf(random_tree().credit, GROWN)
    assert advantage == pytest.approx(
        {(0, 1): 1.414211, (0, 2): -0.707105, (1, 1): -0.707105}, abs=2e-6
    )


def test_it_plants_chains_and_then_draws_turns_that_are_no_leaves():
    plan = random_tree(chains=2, branches=2, expansions=1).grow
    (planted,) = plan([group()], 0)
    assert [fork.tree for fork in planted] == [NEW_TREE] * 2
    before = group((turn(ROOT), turn(0, 1.0, DONE)), (turn(ROOT), turn(0, 0.0, DONE)))
    drawn = {
        tuple((fork.tree, fork.parent) for fork in plan([before], 1, Moment(seed=seed))[0])
        for seed in range(20)
    }
    # Turn 0 of either tree is the only one that is no leaf; its siblings grow behind the root.
    assert {place for forks in drawn for place in forks} == {(0, ROOT), (1, ROOT)}
    assert plan([before], 1, Moment(seed=3)) == plan([before], 1, Moment(seed=3))
    assert plan([before], 2) == [[]]


def test_the_ladder_ends_at_at2po():
    first, second = random_tree(), random_tree(loss="turn")
    assert (first.loss.ratio, first.loss.mean) == (Level.TOKEN, Mean.ROLLOUT)
    assert second.loss == at2po().loss
    third = random_tree(loss="turn", expansion="entropy")
    assert third.grow == at2po().grow != second.grow
    assert replace(third, credit=at2po().credit) == at2po()
    assert random_tree(chains=4) == first

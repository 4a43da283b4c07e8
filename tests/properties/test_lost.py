"""Every method copes with episodes that could not be opened or copied: nothing of them trains."""

import math

import pytest

from retrograde.algorithms.registry import ALGORITHMS
from retrograde.credit.standing import outcomes
from retrograde.data.tree import ROOT_PARENT, End

from .toy import grown, updates

SEEDS = range(6)
LOST = 0.3


def unsaid(group):
    return [turn for tree in group.trees for turn in tree.turns if not turn.action]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_plan_comes_to_its_end_and_nothing_lost_trains(name):
    algorithm, lost, unopened = ALGORITHMS[name](), 0, 0
    for seed in SEEDS:
        try:
            groups = grown(name, seed, breaks=0.0, lost=LOST)
        except RuntimeError as nothing_left:
            assert "rollouts of round 0 failed in toy" in str(nothing_left)  # noqa: PT017
            continue
        for group in groups:
            lost += len(unsaid(group))
            unopened += sum(t.parent == ROOT_PARENT and not t.fresh for t in unsaid(group))
            assert all(turn.end is End.FAILED for turn in unsaid(group))
        for rows in updates(algorithm, groups):
            for row in rows:
                tree = groups[row.group].trees[row.rollout[2]]
                assert row.action
                assert all(math.isfinite(each) for each in row.advantages)
                assert any(
                    tree.turns[leaf].action == row.action
                    or any(tree.turns[i].action == row.action for i in tree.path(leaf))
                    for leaf in tree.leaves
                    if tree.turns[leaf].end is not End.FAILED
                )
    assert lost > 0
    assert unopened > 0


@pytest.mark.parametrize("name", ["grpo", "rloo", "dr_grpo", "reinforce_pp", "tree_grpo"])
def test_a_group_of_one_valid_rollout_gives_no_signal(name):
    algorithm, seen = ALGORITHMS[name](), 0
    for seed in range(40):
        try:
            groups = grown(name, seed, breaks=0.0, lost=0.6, tasks=1)
        except RuntimeError:
            continue
        if len(outcomes(groups[0])) == 1 and algorithm.normalise is None:
            seen += 1
            assert not any(
                row.is_informative for rows in updates(algorithm, groups) for row in rows
            )
    assert seen > 0 or algorithm.normalise is not None

"""DAPO, arXiv:2503.14476: dynamic sampling, the penalty for length, two bounds, by hand."""

import math

import pytest
from tests.rollouts.worlds import ids
from tests.trainer.test_order import called

from retrograde.algorithms.dapo import dapo
from retrograde.credit.dynamic_sampling import DynamicSampling
from retrograde.data.tree import ROOT_PARENT, End, Group
from retrograde.rollouts.plans import NEW_TREE, Fork, Moment
from retrograde.rollouts.resample import Resample
from retrograde.trainer.run import Run

from .chains import advantages, gradient, rollout, rows

MIXED = rollout(1.0), rollout(0.0)
EASY = rollout(0.1, 0.2), rollout(0.3)
"""Both earn .3, by different ways."""
LOST = rollout(1.0), rollout(0.0, end=End.FAILED)
A = 0.5 / (math.sqrt(0.5) + 1e-6)


def test_a_group_whose_rollouts_do_not_differ_does_not_train():
    # Trained with an advantage of 0 its three rows would count in the mean; they are not there.
    assert [row.advantage for row in rows(dapo(), MIXED, EASY, LOST)] == pytest.approx([A, -A])
    assert gradient(dapo(), MIXED, EASY) == pytest.approx([-A / 2, A / 2])


def test_the_mean_is_over_tokens_and_the_bounds_are_two():
    # Three and one token: A / 4 each. 1.25 is within .28, 1.3 is not, .75 is below .8.
    group = rollout(1.0, tokens=3), rollout(0.0)
    found = gradient(dapo(), group, ratios=[1.25, 1.3, 1.0, 0.75])
    assert found == pytest.approx([-1.25 * A / 4, 0.0, -A / 4, 0.0])


@pytest.mark.parametrize(
    ("tokens", "penalty"),
    # The paper's: nothing up to 16384, then linear over 4096 tokens, 1 from 20480 on.
    [(1, 0.0), (16384, 0.0), (17408, -0.25), (18432, -0.5), (20480, -1.0), (30000, -1.0)],
)
def test_the_penalty_for_length(tokens, penalty):
    assert DynamicSampling().penalty(tokens) == penalty
    assert DynamicSampling(factor=0.5).penalty(tokens) == penalty / 2


def test_the_penalty_is_of_all_turns_and_changes_the_advantage():
    # Returns 1, 1, 0; the second has 3 + 3 tokens, one above 10 - 5: 1 - 1/5. Mean .6,
    # variance (.16 + .04 + .36) / 2 = .28.
    group = rollout(1.0), rollout(0.0, 1.0, tokens=3), rollout(0.0)
    algorithm = dapo(longest=10, buffer=5)
    spread = math.sqrt(0.28) + 1e-6
    expected = [0.4 / spread, 0.2 / spread, 0.2 / spread, -0.6 / spread]
    assert advantages(algorithm, *group) == pytest.approx(expected)


def test_a_difference_of_length_alone_makes_no_group_informative():
    group = rollout(1.0), rollout(1.0, tokens=9)
    assert advantages(dapo(longest=10, buffer=5), *group) == []


def group(*trees):
    return Group("t", trees)


PLANT = [Fork(NEW_TREE, ROOT_PARENT)] * 2


def test_further_tasks_are_asked_for_until_enough_groups_differ():
    plan = dapo(rollouts=2).grow
    two = Moment(prompts=2)
    assert plan([group(), group()], 0, two) == [PLANT, PLANT]
    # One of two differs: two more.
    assert plan([group(*MIXED), group(*EASY)], 1, two) == [[], [], PLANT, PLANT]
    assert plan([group(*MIXED), group(*LOST)], 1, two) == [[], [], PLANT, PLANT]
    # Two of four do.
    grown = [group(*MIXED), group(*EASY), group(*EASY), group(*MIXED)]
    assert plan(grown, 2, two) == [[]] * 4
    assert not plan.forks


def test_but_not_beyond_the_cap_and_not_without_turns():
    plan = Resample(2, max_batches=2)
    two = Moment(prompts=2)
    assert plan([group(*EASY)] * 2, 1, two) == [[], [], PLANT, PLANT]
    assert plan([group(*EASY)] * 4, 2, two) == [[]] * 4
    assert plan([group(*EASY)] * 2, 1, Moment(prompts=2, turns_left=0)) == [[], []]
    assert Resample(2, max_batches=1)([group(*EASY)] * 2, 1, two) == [[], []]


async def test_what_was_asked_for_and_what_was_dropped_is_counted():
    """Every rollout says the same: two tasks, then two more, and none of the four trains."""
    calls, notes, _ = await called(
        dapo(rollouts=2, max_batches=2),
        Run(steps=1),
        script=lambda _context, _seed: ids("search Ada friend"),
    )
    assert calls.log.count("grow") == 2
    assert notes.counts["tasks/further"] == 2
    assert notes.counts["tasks/dropped"] == 4
    assert [g.task for g in notes.grown[-1]] == ["train-0", "train-1", "train-1000", "train-1001"]
    assert "step" not in calls.log


async def test_where_all_differ_nothing_is_asked_for():
    calls, notes, _ = await called(dapo(rollouts=4), Run(steps=1))
    assert calls.log.count("grow") == 1
    assert "tasks/further" not in notes.counts
    assert "tasks/dropped" not in notes.counts
    assert "step" in calls.log


def test_equal_arguments_give_equal_algorithms():
    assert dapo() == dapo(clip_low=0.2, clip_high=0.28) != dapo(max_batches=3)
    for wrong, match in (
        ({"rollouts": 1}, "rollouts: at least 2"),
        ({"max_batches": 0}, "max_batches: at least 1"),
        ({"buffer": 0}, "buffer: above 0"),
        ({"longest": 10}, "at most longest=10"),
        ({"overlong": -1.0}, "factor: at least 0"),
    ):
        with pytest.raises(ValueError, match=match):
            dapo(**wrong)

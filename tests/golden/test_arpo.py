"""ARPO, arXiv:2507.19849: plans and advantages of trees drawn by hand."""

import math
import random
from dataclasses import replace

import pytest
from tests.rollouts.worlds import Watched, grower, grown, ids

from retrograde.algorithms.arpo import arpo
from retrograde.credit.group_relative import GroupRelative
from retrograde.credit.shared_prefix import SharedPrefix
from retrograde.data.rows import rows_of
from retrograde.data.seeds import derived
from retrograde.data.tree import ROOT_PARENT, End, Group, Tree
from retrograde.environments.lake import Lake
from retrograde.policies.protocol import Answer
from retrograde.rollouts.plans import NEW_TREE, Fork, Moment
from retrograde.rollouts.tool_entropy import Probe, ToolEntropy

from .drawn import DONE, FAILED, STOPPED, group, turn

PLANT = Fork(NEW_TREE, ROOT_PARENT, keep=True, turns=1)
WHOLE = Fork(NEW_TREE, ROOT_PARENT)


def on(tree, parent):
    """One more answer behind a turn, a turn long."""
    return Fork(tree, parent, keep=True, turns=1)


def plan(**options):
    return ToolEntropy(**({"total": 4, "initial": 2, "probe": Probe(20, 1.0)} | options))


def test_round_0_plants_chains_of_one_turn():
    assert plan()([Group("a"), Group("b")], 0) == [[PLANT] * 2] * 2


def test_first_turns_are_measured_and_never_branched():
    # No tool has said anything yet, however much the policy hesitates.
    first = group([turn(end=STOPPED, entropy=3.0)], [turn(end=STOPPED, entropy=0.1)])
    assert plan()([first], 1) == [[on(0, 0), on(1, 0)]]


# Round 1 left two rollouts at their second turn, which answers a tool's result:
#
#   tree 0: 0 (H 1.0) - 1 (H 1.5)      dH = +.5: P = .5 + .2 * .5 = .6 > .5, branch behind 0
#   tree 1: 0 (H 1.0) - 1 (H 0.75)     dH = -.25: P = .5 - .05 = .45, do not
SECOND = group(
    [turn(entropy=1.0), turn(0, STOPPED, entropy=1.5, grown_in=1)],
    [turn(entropy=1.0), turn(0, STOPPED, entropy=0.75, grown_in=1)],
)


def test_a_turn_with_more_entropy_than_the_first_gets_a_sibling():
    # Both go on behind turn 1; the branch answers what turn 1 of tree 0 answered, so its parent
    # is turn 0 and not turn 1.
    assert plan()([SECOND], 2) == [[on(0, 1), on(1, 1), on(0, 0)]]


def test_the_rule_is_alpha_plus_beta_times_the_rise_above_tau():
    # P = .5 + .2 * .5 = .6 exactly reached is not above; P = .45 of tree 1 is above .4.
    assert plan(tau=0.6)([SECOND], 2) == [[on(0, 1), on(1, 1)]]
    assert plan(tau=0.4)([SECOND], 2) == [[on(0, 1), on(1, 1), on(0, 0), on(1, 0)]]
    # Without beta, P = alpha whatever the entropy.
    assert plan(beta=0.0)([SECOND], 2) == [[on(0, 1), on(1, 1)]]


def test_entropy_is_a_sum_over_the_first_tokens_only():
    # Each turn has two tokens of half its entropy: sums of one token are .5 and .75, in units of
    # 2 nats .25 and .375. A mean over tokens would not change with their number.
    assert Probe(20, 1.0)(SECOND.trees[0].turns[1]) == 1.5
    assert Probe(1, 1.0)(SECOND.trees[0].turns[1]) == 0.75
    assert Probe(1, 2.0).rise(SECOND.trees[0], 1) == pytest.approx(0.375 - 0.25)
    # P = .5 + .2 * .125 = .525: with tau .55 the scale decides.
    assert plan(tau=0.55)([SECOND], 2) == [[on(0, 1), on(1, 1), on(0, 0)]]
    assert plan(tau=0.55, probe=Probe(1, 2.0))([SECOND], 2) == [[on(0, 1), on(1, 1)]]


def test_only_turns_of_the_last_round_are_asked():
    # Turn 1 had its chance; turn 2, H 1.0, dH 0, P = .5: no branch.
    deeper = group(
        [
            turn(entropy=1.0),
            turn(0, entropy=1.5, grown_in=1),
            turn(1, STOPPED, entropy=1.0, grown_in=2),
        ]
    )
    assert plan()([deeper], 3) == [[on(0, 2)]]


def test_a_last_answer_can_be_branched_and_a_failed_one_cannot():
    over = group(
        [turn(entropy=1.0), turn(0, DONE, entropy=1.5, grown_in=1)],
        [turn(entropy=1.0), turn(0, FAILED, entropy=1.5, grown_in=1)],
    )
    assert plan()([over], 2) == [[on(0, 0)]]


def test_branches_stop_where_the_budget_ends():
    both = group(*([turn(entropy=1.0), turn(0, STOPPED, entropy=2.0, grown_in=1)] for _ in "ab"))
    assert plan(total=4)([both], 2) == [[on(0, 1), on(1, 1), on(0, 0), on(1, 0)]]
    assert plan(total=3)([both], 2) == [[on(0, 1), on(1, 1), on(0, 0)]]
    assert plan(total=2)([both], 2) == [[on(0, 1), on(1, 1)]]


def test_what_is_left_of_the_budget_when_all_have_ended_is_for_fresh_chains():
    over = group([turn(end=DONE, entropy=1.0)], [turn(end=DONE, entropy=1.0)])
    assert plan()([over], 1) == [[WHOLE, WHOLE]]
    # Those are grown whole in round 1; then there is nothing left, whatever their entropy.
    topped = group(
        *([turn(end=DONE, entropy=1.0)] for _ in "ab"),
        *([turn(grown_in=1), turn(0, DONE, entropy=9.0, grown_in=1)] for _ in "cd"),
    )
    assert plan()([topped], 2) == [[]]


def test_the_rule_of_the_code_is_a_coin_that_entropy_weighs():
    # clip(U - .2 dH, 0, 1) <= .5 with U of this task and round, drawn in order.
    for seed in range(40):
        chance = random.Random(derived(seed, "branch", 0))
        first = max(0.0, chance.random() - 0.2 * 0.5) <= 0.5
        second = max(0.0, chance.random() + 0.2 * 0.25) <= 0.5
        expected = [on(0, 1), on(1, 1)] + [on(0, 0)] * first + [on(1, 0)] * second
        assert plan(branching="code")([SECOND], 2, Moment(seed=seed)) == [expected]
    # Far more entropy always branches, far less never does.
    sure = group(
        [turn(), turn(0, STOPPED, entropy=5.0, grown_in=1)],
        [turn(entropy=5.0), turn(0, STOPPED, grown_in=1)],
    )
    for seed in range(40):
        forks = plan(branching="code")([sure], 2, Moment(seed=seed))
        assert forks == [[on(0, 1), on(1, 1), on(0, 0)]]


def test_tasks_draw_coins_of_their_own():
    drawn = [plan(branching="code")([SECOND] * 2, 2, Moment(seed=seed)) for seed in range(20)]
    assert any(one != other for one, other in drawn)


def test_a_policy_that_tells_no_entropies_is_refused():
    silent = Tree(tuple(replace(t, entropies=()) for t in SECOND.trees[0].turns))
    with pytest.raises(ValueError, match="needs a policy that tells entropies"):
        plan()([Group("t", (silent,))], 2)


# Advantages. Tree 0 branched behind turn 0; returns 1, 0, 0, 0:
#
#   tree 0: 0 - 1 (R 1)        tree 1: 0 - 1 (R 0)
#           |                  tree 2: 0 (R 0)
#           - 2 (R 0)
#
# Mean 1/4, sample variance (9/16 + 3/16) / 3 = 1/4, standard deviation 1/2.
# Standings: (3/4) / (1/2) = 1.5 and (-1/4) / (1/2) = -.5.
GROWN = group(
    [turn(), turn(0, DONE, 1.0, grown_in=1), turn(0, DONE, grown_in=2)],
    [turn(), turn(0, DONE)],
    [turn(end=DONE)],
)
HIGH, LOW = 0.75 / (0.5 + 1e-6), -0.25 / (0.5 + 1e-6)


def judged(credit, grown=GROWN):
    return [judgement.advantage_V for judgement in credit(grown, 3)]


def test_soft_advantages_count_a_shared_turn_once_for_each_rollout():
    # Visits of tree 0: turns 0, 1 of leaf 1, then turns 0, 2 of leaf 2.
    assert GROWN.trees[0].visits == ((1, 0), (1, 1), (2, 0), (2, 2))
    assert judged(arpo().credit) == [
        pytest.approx((HIGH, HIGH, LOW, LOW)),
        pytest.approx((LOW, LOW)),
        pytest.approx((LOW,)),
    ]


def test_hard_advantages_are_the_mean_on_shared_turns_and_their_own_behind():
    # The shared turn 0 gets (1.5 - .5) / 2 = .5 on both visits.
    shared = (HIGH + LOW) / 2
    assert shared == pytest.approx(0.5, abs=1e-5)
    assert judged(arpo(advantage="hard").credit) == [
        pytest.approx((shared, HIGH, shared, LOW)),
        pytest.approx((LOW, LOW)),
        pytest.approx((LOW,)),
    ]


def test_hard_and_soft_add_up_to_the_same_on_every_turn():
    # So they have the same gradient before any ratio is clipped.
    for tree, soft, hard in zip(
        GROWN.trees, judged(GroupRelative()), judged(SharedPrefix()), strict=True
    ):
        for number in range(len(tree.turns)):
            of_soft, of_hard = (
                math.fsum(a for a, (_, i) in zip(each, tree.visits, strict=True) if i == number)
                for each in (soft, hard)
            )
            assert of_soft == pytest.approx(of_hard)


def test_shares_weigh_a_shared_turn_once():
    assert judged(SharedPrefix("share"))[0] == pytest.approx((HIGH / 2, HIGH, LOW / 2, LOW))


@pytest.mark.parametrize("shared", ["mean", "share"])
def test_a_failed_rollout_is_in_no_mean(shared):
    # Without leaf 2 the returns are 1, 0, 0: mean 1/3, variance (4/9 + 2/9) / 2 = 1/3.
    tree = GROWN.trees[0]
    broken = Tree((*tree.turns[:2], replace(tree.turns[2], end=End.FAILED)))
    grown = Group("t", (broken, *GROWN.trees[1:]))
    top = (2 / 3) / (math.sqrt(1 / 3) + 1e-6)
    first, *_ = SharedPrefix(shared)(grown, 3)
    assert first.advantage_V == pytest.approx((top, top, 0.0, 0.0))
    assert first.trains_V == (True, True, False, False)


def test_equal_returns_give_exactly_nothing():
    equal = group([turn(), turn(0, DONE, 0.3), turn(0, DONE, 0.1 + 0.2)])
    assert judged(SharedPrefix(), equal) == [(0.0, 0.0, 0.0, 0.0)]


class Hesitant:
    """Goes east, with entropies that rise from turn to turn."""

    def __init__(self, says):
        self.says = says
        self.version = 0
        self.asked = 0

    async def sample(self, contexts, sampling, seed):
        self.asked += 1
        size = len(self.says)
        level = (float(self.asked),) * size
        return [Answer(self.says, (-1.0,) * size, stopped=True, entropies=level) for _ in contexts]


async def test_grown_in_a_real_world_the_budget_is_met_exactly():
    world = Watched(Lake())
    growing = grower(world, Hesitant(ids("go east")))
    groups = await grown(growing, plan(total=5), ["train-0", "train-1"])
    await growing.forget()
    world.book.check()
    for each in groups:
        assert sum(len(tree.leaves) for tree in each.trees) == 5
        assert all(
            tree.turns[leaf].end is not STOPPED for tree in each.trees for leaf in tree.leaves
        )
        # Two chains branch; siblings answer one context, in rounds that follow each other.
        siblings = [
            (tree, below) for tree in each.trees for below in tree.children if len(below) > 1
        ]
        for tree, below in siblings:
            assert len({tree.context(i) for i in below}) == 1
            assert [tree.turns[i].grown_in for i in below] == [
                tree.turns[below[0]].grown_in + n for n in range(len(below))
            ]
    assert any(len(tree.leaves) > 1 for each in groups for tree in each.trees)
    rows = rows_of(groups, [arpo().credit(each, 9) for each in groups])
    assert len(rows) == sum(len(tree.visits) for each in groups for tree in each.trees)


def test_equal_arguments_give_equal_algorithms():
    assert arpo(rollouts=6) == arpo(rollouts=6) != arpo()
    assert not arpo(rollouts=4, initial=4).grow.forks
    assert arpo().grow.forks


@pytest.mark.parametrize(
    ("options", "saying"),
    [
        ({"rollouts": 3}, "no fewer than the 4 chains"),
        ({"rollouts": 1, "initial": 1}, "at least 2"),
        ({"initial": 0}, "initial: at least 1"),
        ({"probe": 0}, "probe: at least 1 token"),
        ({"entropy_scale": 0.0}, "entropy_scale"),
    ],
)
def test_what_cannot_be_is_refused(options, saying):
    with pytest.raises(ValueError, match=saying):
        arpo(**options)

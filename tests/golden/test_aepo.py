"""AEPO, arXiv:2510.14545: plans, weighted advantages and the soft clip, by hand."""

import math
import random
from dataclasses import replace

import pytest
import torch
from tests.rollouts.worlds import Watched, grower, grown, ids

from retrograde.algorithms.aepo import aepo
from retrograde.credit.entropy_weighted import EntropyWeighted
from retrograde.data.batch import ActionTokens
from retrograde.data.rows import Row, rows_of
from retrograde.data.seeds import derived
from retrograde.data.tree import ROOT_PARENT, Group
from retrograde.environments.lake import Lake
from retrograde.rollouts.plans import NEW_TREE, Fork, Moment
from retrograde.rollouts.tool_entropy import BalancedEntropy, Probe

from .drawn import DONE, FAILED, STOPPED, group, turn
from .test_arpo import PLANT, WHOLE, Hesitant, on

PROBE = Fork(NEW_TREE, ROOT_PARENT, keep=True)


def plan(**options):
    return BalancedEntropy(**({"total": 8, "probe": Probe(20, 1.0)} | options))


def first(root, *tool):
    """A first rollout with these entropies."""
    turns = [turn(entropy=root, end=None if tool else DONE)]
    turns += [
        turn(i, DONE if i == len(tool) - 1 else None, entropy=entropy)
        for i, entropy in enumerate(tool)
    ]
    return group(turns)


def test_round_0_is_one_whole_rollout():
    assert plan()([Group("a"), Group("b")], 0) == [[PROBE]] * 2


@pytest.mark.parametrize(
    ("root", "tool", "chains"),
    [
        # int(8 sigmoid(.5 (2 - (1 + 3) / 2))) + 1 = int(8 * .5) + 1.
        (2.0, (1.0, 3.0), 5),
        # H_root 4 above: sigmoid(2) = .8808, int(7.046) + 1. The task is unsure: more chains.
        (5.0, (1.0, 1.0), 8),
        # H_root 4 below: sigmoid(-2) = .1192, int(.954) + 1. The tools confuse: more branches.
        (1.0, (5.0, 5.0), 1),
        # sigmoid(50) = 1: int(8) + 1 = 9 is more than there are.
        (100.0, (0.0,), 8),
        # No tool was asked: H_tool 0, sigmoid(.5) = .6225, int(4.98) + 1.
        (1.0, (), 5),
    ],
)
def test_the_budget_is_split_by_entropy(root, tool, chains):
    measured = first(root, *tool)
    assert plan().chains(measured) == chains
    (forks,) = plan(tau=9.0)([measured], 1)  # a rule that never branches
    assert forks == ([PLANT] * (chains - 1) or [WHOLE] * 7)


def test_the_root_is_measured_over_more_tokens_than_a_tool_turn():
    # Two tokens of half the entropy each: with one token of a tool turn H_tool is 1, and
    # H_root stays 2. sigmoid(.5) = .6225: int(4.98) + 1.
    assert plan(probe=Probe(1, 1.0)).chains(first(2.0, 2.0)) == 5
    assert plan(probe=Probe(1, 1.0), root_tokens=1).chains(first(2.0, 2.0)) == 5
    assert plan(probe=Probe(1, 1.0), root_tokens=1).chains(first(2.0, 4.0)) == 4


def asked(seed, *rises, kept=1.0, beta=0.2, tau=0.5):
    chance = random.Random(derived(seed, "branch", 0))
    return [(chance.random() + beta * rise) * kept >= tau for rise in rises]


def test_the_first_rollout_is_branched_once_it_is_there():
    # H_root 1, H_tool (2 + .5) / 2 = 1.25: sigmoid(-.125) = .469, int(3.75) + 1 = 4 chains, so
    # 3 more. Rises are +1 and -.5, in the order of turns, and siblings answer the turn's input.
    measured = first(1.0, 2.0, 0.5)
    assert plan().chains(measured) == 4
    seen = set()
    for seed in range(40):
        yes = asked(seed, 1.0, -0.5)
        seen.add(tuple(yes))
        expected = [on(0, i) for i in (0, 1) if yes[i]] + [PLANT] * 3
        assert plan()([measured], 1, Moment(seed=seed)) == [expected]
    assert len(seen) == 4


def test_more_entropy_branches_more_often():
    # U + .2 dH >= .5: dH = 2.5 always, dH = -2.5 only if U = 1. The code of ARPO has the other
    # sign on both sides: same direction.
    for seed in range(40):
        (up,) = plan()([first(0.0, 2.5)], 1, Moment(seed=seed))
        assert on(0, 0) in up
        (down,) = plan()([first(2.6, 0.0)], 1, Moment(seed=seed))
        assert on(0, 0) not in down


# One chain whose turn 1 was branched in round 2 and whose turn 2 in round 3:
#
#   turn 0, round 0: followed by turns 1 (round 1) and 3 (round 2, a branch)
#   turn 1, round 1: followed by turns 2 (round 2) and 5 (round 3, a branch)
#   turn 2, round 2: followed by turn 4 (round 3)
TWICE = group(
    [
        turn(),
        turn(0, grown_in=1),
        turn(1, grown_in=2),
        turn(0, DONE, grown_in=2),
        turn(2, STOPPED, grown_in=3),
        turn(1, STOPPED, grown_in=3),
    ]
)


def test_branching_round_after_round_is_held_back():
    # Rounds 2 and 3 branched: l = 2, (U + 0) * .9 >= .5, for turns 4 and 5.
    held = set()
    for seed in range(200):
        yes = asked(seed, 0.0, 0.0, kept=0.9)
        held.add(yes != asked(seed, 0.0, 0.0))
        expected = [on(0, 4), on(0, 5)] + [on(0, p) for p, go in ((2, yes[0]), (1, yes[1])) if go]
        assert plan()([TWICE], 4, Moment(seed=seed)) == [expected]
    assert held == {True, False}


def test_a_round_without_a_branch_starts_the_count_anew():
    tree = TWICE.trees[0]
    calm = Group(
        "t",
        (
            replace(
                tree,
                turns=(
                    *tree.turns[:4],
                    turn(2, grown_in=3),
                    turn(4, STOPPED, grown_in=4),
                ),
            ),
        ),
    )
    for seed in range(60):
        go = asked(seed, 0.0)
        expected = [on(0, 5)] + [on(0, 4)] * go[0]
        assert plan()([calm], 5, Moment(seed=seed)) == [expected]


def test_a_heavy_penalty_ends_all_branching():
    # max(0, 1 - .6 * 2) = 0, and 0 >= .5 never.
    for seed in range(20):
        forks = plan(penalty=0.6)([TWICE], 4, Moment(seed=seed))
        assert forks == [[on(0, 4), on(0, 5)]]


def test_a_first_rollout_that_failed_without_a_word_is_no_crash():
    silent = replace(turn(end=FAILED), action=(), logprobs=(), entropies=())
    failed = group([silent])
    # H_root 0, H_tool 0: int(8 * .5) + 1 = 5 chains.
    assert plan()([failed], 1) == [[PLANT] * 4]


@pytest.mark.parametrize("scale", [1.0, 0.01])
async def test_grown_in_a_real_world_the_budget_is_met_exactly(scale):
    world = Watched(Lake())
    growing = grower(world, Hesitant(ids("go east")))
    groups = await grown(growing, plan(probe=Probe(20, scale)), ["train-0", "train-1"])
    await growing.forget()
    world.book.check()
    assert [sum(len(tree.leaves) for tree in each.trees) for each in groups] == [8, 8]
    assert any(len(tree.leaves) > 1 for each in groups for tree in each.trees)


def row(advantage, entropies):
    size = len(entropies)
    return Row((1,), (2,) * size, (-1.0,) * size, advantage, 0, 0, (0, 0, 0, 0), 1.0, (), entropies)


def test_advantages_are_weighted_by_standardised_entropy():
    # Entropies 0, 1, 2 over the tokens of both rows: mean 1, sample standard deviation 1.
    # z = -1, 0, 1: factors .8, 1, 1.2.
    rows = EntropyWeighted(0.2)([row(2.0, (0.0, 1.0)), row(-1.0, (2.0,))])
    assert [r.advantage for r in rows] == [pytest.approx((1.6, 2.0)), pytest.approx((-1.2,))]


def test_the_unit_of_entropy_does_not_matter():
    # Three times the entropies have three times the standard deviation: the same advantages.
    few = EntropyWeighted(0.2)([row(2.0, (0.0, 3.0)), row(-1.0, (6.0,))])
    assert [r.advantage for r in few] == [pytest.approx((1.6, 2.0)), pytest.approx((-1.2,))]
    less = EntropyWeighted(0.2)([row(2.0, (0.0, 0.1)), row(-1.0, (0.2,))])
    assert [r.advantage for r in less] == [pytest.approx((1.6, 2.0)), pytest.approx((-1.2,))]
    # Two tokens: 0 and 6 stand at -+ 1 / sqrt 2.
    (two,) = EntropyWeighted(1.0)([row(1.0, (0.0, 6.0))])
    assert two.advantage == pytest.approx((1 - 0.5**0.5, 1 + 0.5**0.5))


def test_equal_entropies_change_nothing():
    rows = [row(2.0, (0.1 + 0.2, 0.3)), row(-1.0, (0.3,))]
    assert EntropyWeighted()(rows) == rows
    assert EntropyWeighted()([row(2.0, (0.5,))]) == [row(2.0, (0.5,))]
    assert EntropyWeighted()([]) == []


def test_an_advantage_of_nothing_stays_nothing():
    (calm, _) = EntropyWeighted(9.0)([row(0.0, (0.0, 5.0)), row(1.0, (2.0,))])
    assert not calm.is_informative


def test_rows_without_entropies_are_refused():
    with pytest.raises(ValueError, match="1 of 2 rows have none"):
        EntropyWeighted()([row(1.0, (0.5,)), replace(row(1.0, (0.5,)), entropies=())])


def test_the_upper_bound_keeps_its_gradient_and_the_lower_does_not():
    # Ratios 2, 2, 1/2, 1/2 with A = 1, -1, 1, -1; bounds .8 and 1.2.
    #   2, A 1: value held at 1.2, gradient of 1.2 ratio / sg[ratio]: -1.2
    #   2, A -1: min takes the ratio itself: +2
    #   1/2, A 1: the ratio itself: -1/2
    #   1/2, A -1: held at .8, no gradient.
    rows = [
        Row((1,), (2,) * 4, (0.0,) * 4, (1.0, -1.0, 1.0, -1.0), 0, 0, (0, 0, 0, 0)),
    ]
    tokens = ActionTokens.of(rows)
    logp_T = torch.tensor([2.0, 2.0, 0.5, 0.5]).log().requires_grad_()
    loss = aepo().loss
    value = loss(logp_T, tokens, loss.weights(tokens) * 4)
    value.backward()
    assert float(value.detach()) == pytest.approx(-1.2 + 2 - 0.5 + 0.8)
    torch.testing.assert_close(logp_T.grad, torch.tensor([-1.2, 2.0, -0.5, 0.0]))


def test_credit_is_that_of_whole_rollouts():
    # Returns 1 and 0 around 1/2, standard deviation sqrt(1/2).
    grown_twice = group([turn(), turn(0, DONE, 1.0), turn(0, DONE, grown_in=1)])
    high = 0.5 / (math.sqrt(0.5) + 1e-6)
    (judgement,) = aepo().credit(grown_twice, 2)
    assert judgement.advantage_V == pytest.approx((high, high, -high, -high))
    assert len(rows_of([grown_twice], [[judgement]])) == 4


def test_equal_arguments_give_equal_algorithms():
    assert aepo(rollouts=4) == aepo(rollouts=4) != aepo()
    assert aepo().grow.forks


@pytest.mark.parametrize(
    ("options", "saying"),
    [
        ({"rollouts": 1}, "at least 2"),
        ({"root_probe": 0}, "probe: at least 1 token"),
        ({"entropy_scale": -1.0}, "entropy_scale"),
    ],
)
def test_what_cannot_be_is_refused(options, saying):
    with pytest.raises(ValueError, match=saying):
        aepo(**options)

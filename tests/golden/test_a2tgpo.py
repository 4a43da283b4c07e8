"""A2TGPO, arXiv:2605.06200: gains, advantages and clip bounds by hand."""

import math
from dataclasses import replace

import pytest
import torch

from retrograde.algorithms.a2tgpo import a2tgpo
from retrograde.credit.information_gain import InformationGain
from retrograde.data.batch import ActionTokens
from retrograde.data.evidence import Evidence
from retrograde.data.rows import rows_of
from retrograde.data.tree import End, Group, Tree
from retrograde.losses.policy import Level

from .drawn import DONE, group, turn

# Two rollouts of three turns and one of two; p is the probability of the right answer in the
# place of each turn, so that a turn's gain is the next p less its own:
#
#   tree 0: p .1 - .3 - .7, R 1    gains +.2, +.4; the last turn has none
#   tree 1: p .1 - .1 - .1, R 0    gains 0, 0
#   tree 2: p .1 - .2,      R 0    gain +.1
#
# Turn index 0: .2, 0, .1: mean .1, variance (.01 + .01 + 0) / 3 = .02 / 3.
# Turn index 1: .4, 0:     mean .2, variance .04.
TREES = (
    [turn(), turn(0), turn(1, DONE, 1.0)],
    [turn(), turn(0), turn(1, DONE)],
    [turn(), turn(0, DONE)],
)
P = {
    (0, 0): 0.1, (0, 1): 0.3, (0, 2): 0.7,
    (1, 0): 0.1, (1, 1): 0.1, (1, 2): 0.1,
    (2, 0): 0.1, (2, 1): 0.2,
}  # fmt: skip
FIRST, SECOND = math.sqrt(0.02 / 3 + 1e-8), math.sqrt(0.04 + 1e-8)
Z = {
    (0, 0): 0.1 / FIRST,
    (1, 0): -0.1 / FIRST,
    (2, 0): 0.0,
    (0, 1): 0.2 / SECOND,
    (1, 1): -0.2 / SECOND,
}
# Outcomes 1, 0, 0: mean 1/3, sample variance 1/3.
SPREAD = math.sqrt(1 / 3) + 1e-6
WON, LOST = (2 / 3) / SPREAD, (-1 / 3) / SPREAD


def evidence(p=P):
    return Evidence(gold_logp={place: math.log(each) for place, each in p.items()})


def judged(grown=None, p=P, **options):
    return InformationGain(**options)(grown or group(*TREES), 0, evidence(p))


def test_advantages():
    one, two, three = judged()
    root2 = math.sqrt(2)
    # A_0 = .3 (z_0 + z_1) / sqrt(2) + outcome; A_1 = .3 z_1 + outcome; the answer: outcome only.
    assert Z[0, 0] == pytest.approx(1.22474, abs=1e-4)
    assert Z[0, 1] == pytest.approx(1.0, abs=1e-4)
    assert one.advantage_V == pytest.approx(
        (0.3 * (Z[0, 0] + Z[0, 1]) / root2 + WON, 0.3 * Z[0, 1] + WON, WON)
    )
    assert two.advantage_V == pytest.approx(
        (0.3 * (Z[1, 0] + Z[1, 1]) / root2 + LOST, 0.3 * Z[1, 1] + LOST, LOST)
    )
    assert three.advantage_V == pytest.approx((LOST, LOST))
    assert all(all(each.trains_V) for each in (one, two, three))


def test_gains_to_come_are_discounted():
    one, *_ = judged(gamma=0.5, alpha=1.0)
    assert one.advantage_V[0] == pytest.approx((Z[0, 0] + 0.5 * Z[0, 1]) / math.sqrt(2) + WON)


def test_gains_stand_among_those_of_the_same_turn_only():
    # Over all five gains of the group (.2, .4, 0, 0, .1: mean .14) it would be another number.
    one, *_ = judged(alpha=1.0)
    mean = 0.14
    spread = math.sqrt(sum((g - mean) ** 2 for g in (0.2, 0.4, 0.0, 0.0, 0.1)) / 5)
    assert one.advantage_V[1] - WON == pytest.approx(0.2 / SECOND)
    assert one.advantage_V[1] - WON != pytest.approx((0.4 - mean) / spread, abs=0.01)


def test_it_is_probabilities_that_differ_not_their_logarithms():
    # log p rises by log 3 and log 2 in the first turns of trees 0 and 2, and by 0 in tree 1:
    # tree 2 would then stand above the mean, and it stands at it.
    *_, three = judged(alpha=1.0)
    assert three.advantage_V[0] == pytest.approx(LOST, abs=1e-9)


def test_a_gain_of_exactly_0_is_a_turn_like_others():
    # p of tree 0 does not move in turn 0: its gains are 0 and +.6. Turn 0 has two terms and its
    # own standing; merged with turn 1 it would have turn 1's advantage.
    p = P | {(0, 1): 0.1}
    one, *_ = judged(p=p, alpha=1.0)
    # Index 0: 0, 0, .1: mean 1/30, variance .02/9. Index 1: .6, 0: mean .3, variance .09.
    z_0 = (0 - 0.1 / 3) / math.sqrt(0.02 / 9 + 1e-8)
    z_1 = 0.3 / math.sqrt(0.09 + 1e-8)
    assert one.advantage_V[0] == pytest.approx((z_0 + z_1) / math.sqrt(2) + WON)
    assert one.advantage_V[1] == pytest.approx(z_1 + WON)
    assert one.advantage_V[0] != pytest.approx(one.advantage_V[1])
    # Rows are turns, so the ratio of one is never that of the other either.
    rows = rows_of([group(*TREES)], [judged(p=p)])
    assert ActionTokens.of(rows).num_turns == 8


def test_a_single_gain_stands_at_nothing():
    # One rollout gets to a third turn: no other to stand among, whatever it gained.
    p = P | {(0, 1): 0.9}
    one, _, _ = judged(group(TREES[0], TREES[2], TREES[2]), {**p, (1, 0): 0.1, (1, 1): 0.2})
    assert one.advantage_V[1] == pytest.approx(one.advantage_V[2])


def test_clip_bounds_follow_the_gain():
    # 1 + .3 (2 sigmoid(z) - 1).
    one, two, three = judged()
    assert one.clip_V == pytest.approx(
        (1 + 0.3 * (2 / (1 + math.exp(-Z[0, 0])) - 1), 1 + 0.3 * (2 / (1 + math.exp(-1)) - 1), 1.0),
        abs=1e-6,
    )
    assert one.clip_V[1] == pytest.approx(1.138635, abs=1e-5)
    assert two.clip_V[0] == pytest.approx(2 - one.clip_V[0])
    assert three.clip_V == (1.0, 1.0)
    assert InformationGain(clip_scale=0.0)(group(*TREES), 0, evidence())[0].clip_V == (1.0,) * 3


def test_both_bounds_are_scaled_and_the_ratio_is_a_turns():
    algorithm = a2tgpo()
    rows = rows_of([group(*TREES)], [algorithm.credit(group(*TREES), 0, evidence())])
    tokens = ActionTokens.of(rows)
    loss = algorithm.loss
    assert loss.ratio is Level.TURN
    scale = tokens.clip_scale[2]  # turn 1 of tree 0, tokens 2 and 3: 1.1386
    assert float(scale) == pytest.approx(1.138635, abs=1e-5)
    # Both tokens of the turn move by a little less or more than log(1 + .004 * 1.1386).
    bound = math.log1p(4e-3 * float(scale))
    for move, clipped in ((bound * 0.99, False), (bound * 1.01, True)):
        logp_T = tokens.behaviour_logp.clone()
        logp_T[2:4] += move
        logp_T.requires_grad_()
        loss(logp_T, tokens, loss.weights(tokens)).backward()
        assert bool((logp_T.grad[2:4] == 0).all()) is clipped
    # Tokens that move apart and leave the turn's mean in place are not clipped.
    logp_T = tokens.behaviour_logp.clone()
    logp_T[2:4] += torch.tensor([0.5, -0.5])
    logp_T.requires_grad_()
    loss(logp_T, tokens, loss.weights(tokens)).backward()
    assert bool((logp_T.grad[2:4] != 0).all())


def test_equal_outcomes_leave_the_gains():
    equal = [[*each[:-1], replace(each[-1], reward=0.5)] for each in TREES]
    one, *_ = judged(group(*equal))
    assert one.advantage_V == pytest.approx(
        (0.3 * (Z[0, 0] + Z[0, 1]) / math.sqrt(2), 0.3 * Z[0, 1], 0.0)
    )
    assert one.advantage_V[-1] == 0.0
    # And equal gains give exactly nothing: .3 - .2 and .2 - .1 differ in the last place.
    assert 0.3 - 0.2 != 0.2 - 0.1
    flat = group(TREES[2], TREES[2])
    p = {(0, 0): 0.2, (0, 1): 0.3, (1, 0): 0.1, (1, 1): 0.2}
    assert [each.advantage_V for each in judged(flat, p)] == [(0.0, 0.0)] * 2


def test_a_failed_rollout_is_in_no_mean():
    failed = Tree((*group(TREES[0]).trees[0].turns[:2], turn(1, End.FAILED)))
    grown = Group("t", (*group(*TREES).trees, failed))
    p = P | {(3, 0): 0.9, (3, 1): 0.1, (3, 2): 0.9}
    *before, last = judged(grown, p)
    assert before == judged()
    assert last.trains_V == (False,) * 3
    assert last.advantage_V == (0.0,) * 3
    assert last.clip_V == (1.0,) * 3


def test_equal_arguments_give_equal_algorithms():
    assert a2tgpo(alpha=0.5) == a2tgpo(alpha=0.5) != a2tgpo()
    assert not a2tgpo().grow.forks


@pytest.mark.parametrize(
    ("options", "saying"),
    [
        ({"rollouts": 1}, "rollouts: at least 2"),
        ({"gamma": 1.5}, "gamma"),
        ({"clip_scale": 1.0}, "clip_scale"),
        ({"clip_low": 0.0}, "clip bounds"),
    ],
)
def test_what_cannot_be_is_refused(options, saying):
    with pytest.raises(ValueError, match=saying):
        a2tgpo(**options)

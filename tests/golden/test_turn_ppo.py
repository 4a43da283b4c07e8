"""Turn-PPO, arXiv:2512.17008: states are turns, worked by hand."""

import math
from dataclasses import replace

import pytest
import torch

from retrograde.algorithms.turn_ppo import turn_ppo
from retrograde.data.batch import ActionTokens
from retrograde.data.evidence import Evidence
from retrograde.data.rows import rows_of
from retrograde.data.tree import End, Group
from retrograde.losses.policy import Level

from .chains import rollout

# Three turns of 2, 1 and 3 tokens with rewards 0, 0 and 1, values .5, .25 and .75;
# gamma .5, lam .5. From the last turn back:
#   delta 1 - .75 = .25                       A = .25
#   delta .5 * .75 - .25 = .125               A = .125 + .25 * .25 = .1875
#   delta .5 * .25 - .5 = -.375               A = -.375 + .25 * .1875 = -.328125
GROUP = Group("t", (rollout(0.0, 0.0, 1.0, tokens=(2, 1, 3)),))
VALUES = {(0, 0): (0.5,), (0, 1): (0.25,), (0, 2): (0.75,)}
SMALL = turn_ppo(gamma=0.5, lam=0.5)


def test_one_advantage_for_all_tokens_of_a_turn():
    (found,) = SMALL.credit(GROUP, 0, Evidence(values=VALUES))
    assert found.advantage_V == (-0.328125, 0.1875, 0.25)
    assert found.target_V == ((0.171875,), (0.4375,), (1.0,))
    assert found.value_V == ((0.5,), (0.25,), (0.75,))


def test_the_discount_is_by_turns_not_by_tokens():
    # By tokens the first turn's value would be discounted over its two tokens as well.
    longer = Group("t", (rollout(0.0, 0.0, 1.0, tokens=(20, 1, 30)),))
    (found,) = SMALL.credit(longer, 0, Evidence(values=VALUES))
    assert found.advantage_V == (-0.328125, 0.1875, 0.25)


def test_the_papers_values():
    # gamma .99, lam .9: delta -1 at the last, .99 - .5 before, .99 * .5 - 1 at first.
    group = Group("t", (rollout(0.0, 0.0, 0.0, end=End.TRUNCATED),))
    values = {(0, 0): (1.0,), (0, 1): (0.5,), (0, 2): (1.0,)}
    (found,) = turn_ppo().credit(group, 0, Evidence(values=values))
    middle = 0.49 - 0.891
    assert found.advantage_V == pytest.approx((-0.505 + 0.891 * middle, middle, -1.0))


def test_whitening_counts_turns():
    # Mean of -.328125, .1875, .25 is .036458; sample variance
    # (.132921 + .022814 + .045600) / 2 = .100667. By tokens the mean were .046875.
    algorithm = SMALL
    judged = algorithm.credit(GROUP, 0, Evidence(values=VALUES))
    rows = algorithm.normalise(rows_of([GROUP], [judged]))
    mean, spread = 0.109375 / 3, math.sqrt(0.100667 + 1e-8)
    expected = [(a - mean) / spread for a in (-0.328125, 0.1875, 0.25)]
    assert [row.advantage for row in rows] == pytest.approx(expected, rel=1e-5)


def test_ratio_and_clip_are_of_turns_and_each_turn_counts_once():
    # A = 1 for all. Turn 0: sqrt(4 * .25) = 1; turn 1: 1.3, above 1.2; turn 2: 1.1 each.
    judged = turn_ppo().credit(GROUP, 0, Evidence(values=VALUES))
    rows = [replace(row, advantage=1.0) for row in rows_of([GROUP], [judged])]
    tokens = ActionTokens.of(rows)
    ratio_T = torch.tensor([4.0, 0.25, 1.3, 1.1, 1.1, 1.1])
    logp_T = (tokens.behaviour_logp + ratio_T.log()).requires_grad_()
    loss = turn_ppo().loss
    loss(logp_T, tokens, loss.weights(tokens)).backward()
    # ratio / tokens of the turn / 3 turns; the clipped turn gives none.
    expected = [-1 / 6, -1 / 6, 0.0, -1.1 / 9, -1.1 / 9, -1.1 / 9]
    assert logp_T.grad.tolist() == pytest.approx(expected)


def test_the_critic_is_of_turns_and_faster():
    critic = turn_ppo().critic
    assert critic.level is Level.TURN
    assert critic.speed > 1
    assert turn_ppo() == turn_ppo(critic="own") != turn_ppo(critic="shared")
    with pytest.raises(ValueError, match="value speed"):
        turn_ppo(critic_speed=0.0)

"""ATPO, the turn-level objective of AT2PO, arXiv:2601.04767, on plain rollouts, by hand."""

import math

import pytest
import torch

from retrograde.algorithms.atpo import atpo
from retrograde.data.batch import ActionTokens
from retrograde.data.rows import rows_of
from retrograde.data.tree import Group
from retrograde.rollouts.plans import Chains

from .chains import rollout

# Two rollouts of two turns, turns of 1 and 2 tokens; returns 1 and 0.
GROUP = Group("t", (rollout(0.0, 1.0, tokens=(1, 2)), rollout(0.0, 0.0, tokens=(1, 2))))
SPREAD = 0.5 / (math.sqrt(0.5) + 1e-6)
"""Mean 1/2, sample variance 2 * .25 / 1 = 1/2."""


def tokens():
    algorithm = atpo(rollouts=2)
    return ActionTokens.of(rows_of([GROUP], [algorithm.credit(GROUP, 0)]))


def test_a_turn_has_one_ratio_the_geometric_mean_of_its_tokens():
    # First rollout: turn 0 is .002 nats likelier, e^.002 = 1.002002; turn 1's tokens moved by
    # +.006 and -.002, mean .002, so both have 1.002002 as well. The rest did not move.
    moved = torch.tensor([0.002, 0.006, -0.002, 0.0, 0.0, 0.0])
    ratios = atpo().loss.ratios(tokens().behaviour_logp + moved, tokens())
    assert ratios.tolist() == pytest.approx([math.exp(0.002)] * 3 + [1.0] * 3, abs=1e-6)


def test_a_turn_is_clipped_as_one_and_a_token_is_not_clipped_alone():
    # The token that moved by .006 is beyond 1.004 on its own; its turn, at 1.002, is not. With
    # .006 and .004 the turn is at 1.005 and has no gradient at all. A token counts for 1/3 of its
    # rollout and a rollout for 1/2: its gradient is -s A / 6.
    expected = {(0.006, -0.002): math.exp(0.002), (0.006, 0.004): 0.0}
    for (first, second), s in expected.items():
        logp = tokens().behaviour_logp + torch.tensor([0.0, first, second, 0.0, 0.0, 0.0])
        logp.requires_grad_()
        loss = atpo().loss
        loss(logp, tokens(), loss.weights(tokens())).backward()
        assert logp.grad[1:3].tolist() == pytest.approx([-s * SPREAD / 6] * 2, abs=1e-6)
        assert logp.grad[0] == pytest.approx(-SPREAD / 6, abs=1e-6)


def test_it_grows_chains_and_equal_arguments_give_equal_algorithms():
    assert atpo().grow == Chains(8, least=2)
    assert atpo(rollouts=8) == atpo() != atpo(scale=False)
    with pytest.raises(ValueError, match="rollouts"):
        atpo(rollouts=1)

"""In expectation, a phase is the exact gradient of one turn, shrunk by a known factor."""

import pytest
import torch

from retrograde.credit.sibling_mean import SiblingMean
from retrograde.losses.policy import Mean, PolicyLoss
from retrograde.rollouts.plans import Fork

from .growth import Actor, expected_gradient, phase
from .mdp import full_gradient, random_world, turn_gradient, turn_tables, with_new_turns

SUM = PolicyLoss(mean=Mean.SUM)

@pytest.mark.parametrize("turn", [0, 1, 2])
@pytest.mark.parametrize("n", [2, 3])
def test_x(turn, n):
    import time
    t=time.time()
    world = random_world(3)
    policy = turn_tables(world.shape)
    before_D = policy.random(1)
    now_D = with_new_turns(policy, before_D, policy.random(2), turn + 1)
    before, now = Actor(world, policy, before_D), Actor(world, policy, now_D)
    grown = phase(before, now, turn, Fork(0, turn - 1, n), all_paths=(n == 2))
    actual = expected_gradient(grown, SiblingMean(), SUM, policy.score, now_D)
    exact = turn_gradient(world, policy, before_D, now_D, turn)
    torch.testing.assert_close(actual, (n - 1) / n * exact, atol=1e-10, rtol=0)
    mine = full_gradient(world, policy, now_D).view(3, -1)[turn]
    torch.testing.assert_close(mine, exact.view(3, -1)[turn], atol=1e-12, rtol=0)
    print(turn, n, time.time()-t)

"""N2, where the policy decides how long a rollout is."""

from dataclasses import dataclass
from statistics import fmean

import pytest
import torch

from retrograde.credit.sibling_mean import SiblingMean
from retrograde.data.rows import Judgement
from retrograde.data.tree import Group
from retrograde.losses.policy import Mean
from retrograde.rollouts.plans import Fork

from .growth import Actor, branched, expected_gradient, flat_groups, siblings
from .mdp import (
    World,
    alike,
    full_gradient,
    random_world,
    rollouts,
    turn_gradient,
    turn_tables,
    visitation,
)
from .measured import SUM, flat_gradients, phase_gradients, setting, settled


@pytest.mark.parametrize("turn", [0, 1, 2])
@pytest.mark.parametrize("n", [2, 3])
def test_a_phase_is_exact_when_the_policy_controls_stopping(turn, n):
    s = setting(random_world(11, (3, 2, 2), stops=True, bonus=True, noisy=False), turn)
    gradients = phase_gradients(s, turn, Fork(0, turn - 1, n))
    expected = (n - 1) / n * gradients.exact_D
    torch.testing.assert_close(gradients.estimated_D, expected, atol=1e-12, rtol=0)
    assert gradients.exact_D.norm() > 1e-3


def test_trunks_that_end_early_change_the_length_of_a_step_but_not_its_direction():
    # Two trunks, of which each has the last turn with probability p. The mean is over the
    # siblings there are, so the step is divided by p once and lost with (1 - p)^2.
    world = random_world(12, (2, 2, 2), stops=True, noisy=False)
    s = settled(world)
    p = float(visitation(world, s.policy.actions(s.now_D))[1].sum())
    assert 0.1 < p < 0.9
    trees = [
        (chance * probability, branched(trunk, s.now, 1, grown, s.now))
        for chance, trunk in alike(
            rollouts(world, s.now.choice), lambda path: path[1].state if len(path) > 1 else None
        )
        for probability, grown in (
            siblings(s.now, Fork(0, 0, 2), 1, trunk[1].state) if len(trunk) > 1 else [(1.0, [])]
        )
    ]
    grown = (
        (p_one * p_two, [Group("world", (one, two))])
        for p_one, one in trees
        for p_two, two in trees
    )
    estimated_D = expected_gradient(grown, SiblingMean(), SUM, s.policy.score, s.now_D)
    exact_D = turn_gradient(world, s.policy, s.now_D, s.now_D, 1)
    expected_D = 1 / 2 * (1 - (1 - p) ** 2) / p * exact_D
    torch.testing.assert_close(estimated_D, expected_D, atol=1e-12, rtol=0)


@pytest.mark.parametrize("mean", [Mean.SUM, Mean.TOKEN, Mean.ROLLOUT])
def test_control_a_mean_over_whole_rollouts_divides_by_what_the_policy_controls(mean):
    s = settled(random_world(13, (2, 2, 2), stops=True))
    assert flat_gradients(s, 2, mean).residue > 0.02


@dataclass(frozen=True)
class TurnByTurn:
    """A mistake: rewards are centred turn by turn, over the rollouts that still go on."""

    def __call__(self, group, grown_in):
        longest = max(len(tree.turns) for tree in group.trees)
        level = [
            fmean(tree.turns[k].reward for tree in group.trees if k < len(tree.turns))
            for k in range(longest)
        ]
        judged = []
        for tree in group.trees:
            centred = [turn.reward - level[k] for k, turn in enumerate(tree.turns)]
            advantage = tuple(sum(centred[k:]) for k in range(len(centred)))
            judged.append(Judgement(advantage, (True,) * len(advantage)))
        return judged


def toll_world(toll: float) -> World:
    """Two turns of one state; action 0 stops, and each turn costs the same."""
    chance = torch.zeros(2, 1, 2, 3, dtype=torch.float64)
    chance[0, 0, 0, 2] = chance[1, 0, :, 2] = 1.0
    chance[0, 0, 1, 0] = 1.0
    bonus = torch.full((2, 1, 2), -toll, dtype=torch.float64)
    return World(torch.ones(1, dtype=torch.float64), chance, bonus)


def test_control_centring_rewards_turn_by_turn_hides_what_a_turn_costs():
    world = toll_world(0.25)
    policy = turn_tables(world.shape)
    theta_D = policy.random(3)
    actor = Actor(world, policy, theta_D)
    exact_D = full_gradient(world, policy, theta_D)
    # Stopping is better by 0.25, and everyone who is still there pays the same.
    pi = policy.actions(theta_D).exp()[0, 0, 0]
    torch.testing.assert_close(exact_D[0], 0.25 * pi * (1 - pi))
    blind_D = expected_gradient(flat_groups(actor, 2), TurnByTurn(), SUM, policy.score, theta_D)
    assert blind_D.abs().max() < 1e-15
    s = settled(world, theta_D)
    gradients = phase_gradients(s, 0, Fork(0, -1, 2))
    torch.testing.assert_close(gradients.estimated_D, exact_D / 2, atol=1e-12, rtol=0)

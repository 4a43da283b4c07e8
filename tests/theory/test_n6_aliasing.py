"""N6: where the policy is shown one context for two states, the optimum is out of reach."""

import pytest
import torch

from retrograde.credit.sibling_mean import SiblingMean
from retrograde.rollouts.plans import Fork

from .growth import Actor, expected_gradient, phase
from .mdp import Policy, turn_tables, values
from .measured import SUM, best_blind_value, blind_world, detour_world, recursive_value


def uniform(world):
    policy = turn_tables(world.shape)
    return policy.actions(torch.zeros(policy.size, dtype=torch.float64))


def test_the_two_states_have_different_best_actions():
    last_SA = values(blind_world(), uniform(blind_world())).q_KSA[1]
    assert last_SA.argmax(-1).tolist() == [0, 1]


def test_who_sees_the_state_reaches_the_optimum():
    assert recursive_value(blind_world(), uniform(blind_world()), blind=False) == 1.0


def test_who_does_not_stays_below_it():
    world = blind_world()
    assert recursive_value(world, uniform(world), blind=True) == pytest.approx(0.5)
    assert best_blind_value(world) == pytest.approx(0.5)


def test_one_context_for_both_states_has_no_gradient_though_each_state_has_one():
    world = blind_world()
    seeing = turn_tables(world.shape)
    # Both states of a turn use the first state's logits.
    one = seeing.features_KSNLD[:, :1].expand(-1, 2, -1, -1, -1)
    blind = Policy(one, seeing.words)
    for policy, strength in ((seeing, 1 / 16), (blind, 0.0)):
        theta_D = torch.zeros(policy.size, dtype=torch.float64)
        actor = Actor(world, policy, theta_D)
        grown = phase(actor, actor, 1, Fork(0, 0, 2))
        step_D = expected_gradient(grown, SiblingMean(), SUM, policy.score, theta_D)
        # In each state: 1/2 (two siblings) * 1/2 (visits) * pi (1 - pi) * 1.
        assert step_D.abs().max() == pytest.approx(strength, abs=1e-12)


def test_what_a_blind_sweep_reaches_depends_on_where_the_trunks_went():
    # Room 1 is worth more, but trunks mostly go to room 0, so the last turn learns what wins
    # there, and then the first turn has no reason to go elsewhere.
    world = detour_world()
    policy = turn_tables(world.shape)
    mostly_left = torch.zeros(policy.features_KSNLD.shape[:-1], dtype=torch.float64)
    mostly_left[0, :, 0, 0] = 2.0
    to_room_0 = policy.actions(mostly_left.flatten())
    assert best_blind_value(world) == 1.0
    assert recursive_value(world, to_room_0, blind=True) == pytest.approx(0.4)
    assert recursive_value(world, uniform(world), blind=True) == 1.0
    assert recursive_value(world, to_room_0, blind=False) == 1.0

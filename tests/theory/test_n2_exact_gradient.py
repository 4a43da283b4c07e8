"""N2: in expectation a phase is the exact gradient of one turn, shrunk by a known factor.

With n = G - 1 siblings the factor is (n - 1) / n = (G - 2) / (G - 1).
"""

from dataclasses import dataclass, replace

import pytest
import torch

from retrograde.credit.sibling_mean import SiblingMean, departures
from retrograde.data.rows import Judgement
from retrograde.data.tree import Group, Tree
from retrograde.losses.policy import Mean, PolicyLoss
from retrograde.rollouts.plans import Fork

from .growth import Actor, expected_gradient, phase
from .mdp import (
    full_gradient,
    random_world,
    shared_table,
    turn_gradient,
    turn_tables,
    values,
    visitation,
)
from .measured import (
    SUM,
    Gradients,
    flat_gradients,
    group_advantage,
    phase_gradients,
    setting,
    settled,
    sibling_advantage,
)


def assert_multiple(gradients: Gradients, factor: float) -> None:
    expected = factor * gradients.exact_D
    torch.testing.assert_close(gradients.estimated_D, expected, atol=1e-12, rtol=0)
    assert gradients.exact_D.norm() > 1e-3


@pytest.mark.parametrize("turn", [0, 1, 2])
@pytest.mark.parametrize("n", [2, 3])
def test_a_phase_is_the_gradient_of_its_turn(turn, n):
    s = setting(random_world(3), turn)
    gradients = phase_gradients(s, turn, Fork(0, turn - 1, n))
    assert_multiple(gradients, (n - 1) / n)
    # Under per-turn tables it is also the part of the full gradient that belongs to the turn.
    own = full_gradient(s.world, s.policy, s.now_D).view(3, -1)[turn]
    torch.testing.assert_close(own, gradients.exact_D.view(3, -1)[turn], atol=1e-12, rtol=0)


@pytest.mark.parametrize("turn", [1, 2])
def test_enumerating_every_path_gives_the_same(turn):
    s = setting(random_world(4), turn)
    gradients = phase_gradients(s, turn, Fork(0, turn - 1, 2), all_paths=True)
    assert_multiple(gradients, 1 / 2)


def test_bonuses_on_the_way_change_nothing():
    s = setting(random_world(5, (3, 2, 2), noisy=False, bonus=True), 1)
    assert_multiple(phase_gradients(s, 1, Fork(0, 0, 2)), 1 / 2)


def test_three_actions_and_states():
    s = setting(random_world(6, (3, 3, 3)), 1)
    assert_multiple(phase_gradients(s, 1, Fork(0, 0, 2)), 1 / 2)


@pytest.mark.parametrize("turn", [0, 1, 2])
def test_shared_weights_do_not_change_the_gradient_of_a_turn(turn):
    world = random_world(7)
    policy = shared_table(world.shape)
    before_D, now_D = policy.random(1), policy.random(2)
    before, now = Actor(world, policy, before_D), Actor(world, policy, now_D)
    grown = phase(before, now, turn, Fork(0, turn - 1, 2))
    estimated_D = expected_gradient(grown, SiblingMean(), SUM, policy.score, now_D)
    exact_D = turn_gradient(world, policy, before_D, now_D, turn)
    assert_multiple(Gradients(estimated_D, exact_D), 1 / 2)


WORDS = ((0,), (1, 0), (1, 1))
"""Three actions of one, two and two tokens."""


def of_unequal_lengths(turn):
    world = random_world(8, (3, 2, 3), noisy=False)
    return setting(world, turn, turn_tables(world.shape, WORDS))


@pytest.mark.parametrize("turn", [0, 1, 2])
def test_a_sum_over_tokens_is_exact_for_any_lengths(turn):
    s = of_unequal_lengths(turn)
    assert_multiple(phase_gradients(s, turn, Fork(0, turn - 1, 2)), 1 / 2)


@pytest.mark.parametrize("turn", [0, 1, 2])
def test_a_mean_over_tokens_is_the_gradient_of_another_objective(turn):
    # Each action's advantage is divided by its length, before the scores are averaged.
    s = of_unequal_lengths(turn)
    gradients = phase_gradients(s, turn, Fork(0, turn - 1, 2), PolicyLoss(mean=Mean.TURN))
    assert gradients.residue > 0.02
    exact = values(s.world, s.policy.actions(s.now_D))
    advantage_SA = exact.q_KSA[turn] - exact.v_KS[turn].unsqueeze(-1)
    length_A = torch.tensor([float(len(word)) for word in WORDS], dtype=torch.float64)
    live_D = s.now_D.clone().requires_grad_()
    logp_SA = s.policy.actions(live_D)[turn]
    at_S = visitation(s.world, s.policy.actions(s.before_D))[turn]
    objective = at_S.unsqueeze(-1) * logp_SA.detach().exp() * advantage_SA / length_A * logp_SA
    objective.sum().backward()
    torch.testing.assert_close(gradients.estimated_D, live_D.grad / 2, atol=1e-12, rtol=0)


def test_siblings_give_the_advantage_shrunk_by_the_factor():
    s = setting(random_world(9), 1)
    exact = values(s.world, s.policy.actions(s.now_D))
    advantage_SA = exact.q_KSA[1] - exact.v_KS[1].unsqueeze(-1)
    for n in (2, 3):
        actual_SA = sibling_advantage(s, 1, Fork(0, 0, n))
        torch.testing.assert_close(actual_SA, (n - 1) / n * advantage_SA, atol=1e-12, rtol=0)


@pytest.mark.parametrize("size", [2, 3])
def test_a_group_mean_carries_the_value_of_the_state(size):
    s = settled(random_world(9))
    exact = values(s.world, s.policy.actions(s.now_D))
    advantage_KSA = exact.q_KSA - exact.v_KS.unsqueeze(-1)
    contamination_KS = (size - 1) / size * (exact.v_KS - exact.total)
    expected_KSA = (size - 1) / size * advantage_KSA + contamination_KS.unsqueeze(-1)
    actual_KSA = group_advantage(s.now, size)
    torch.testing.assert_close(actual_KSA, expected_KSA, atol=1e-12, rtol=0)
    assert contamination_KS.abs().max() > 0.02


@pytest.mark.parametrize("mean", [Mean.SUM, Mean.TOKEN, Mean.ROLLOUT])
def test_what_a_group_mean_carries_cancels_from_the_full_gradient(mean):
    # Every rollout has two turns, so each of these means divides by the same number.
    s = settled(random_world(10, (2, 2, 2)))
    assert_multiple(flat_gradients(s, 2, mean), 1 / 2 / 2)


@dataclass(frozen=True)
class WithTrunk:
    """A mistake: the trunk counts as one of the siblings."""

    turn: int

    def __call__(self, group, grown_in):
        trees = [
            Tree(
                tuple(
                    replace(node, grown_in=grown_in) if i in tree.trunk[self.turn :] else node
                    for i, node in enumerate(tree.turns)
                )
            )
            for tree in group.trees
        ]
        return SiblingMean()(Group(group.task, tuple(trees)), grown_in)


@dataclass(frozen=True)
class LaterTurnsToo:
    """A mistake: a sibling's advantage goes to everything behind it as well."""

    def __call__(self, group, grown_in):
        return [
            self._spread(tree, judged, grown_in)
            for tree, judged in zip(group.trees, SiblingMean()(group, grown_in), strict=True)
        ]

    def _spread(self, tree, judged, grown_in):
        left = set(departures(tree, grown_in))
        advantage = dict(zip(tree.visits, judged.advantage_V, strict=True))
        found = [
            next((advantage[leaf, i] for i in tree.path(leaf) if i in left), None)
            if tree.turns[turn].grown_in == grown_in
            else None
            for leaf, turn in tree.visits
        ]
        return Judgement(tuple(a or 0.0 for a in found), tuple(a is not None for a in found))


def test_control_the_trunk_among_the_siblings_breaks_it():
    s = setting(random_world(3, (3, 3, 2)), 1)
    fork = Fork(0, 0, 2)
    exact_D = phase_gradients(s, 1, fork).exact_D
    grown = phase(s.before, s.now, 1, fork)
    wrong_D = expected_gradient(grown, WithTrunk(1), SUM, s.policy.score, s.now_D)
    # The trunk was continued by the policy of before, so no factor mends it.
    assert Gradients(wrong_D, exact_D).residue > 0.02


def test_control_a_fresh_trunk_among_the_siblings_changes_the_factor():
    # Continued by the same policy it is a third sibling: the factor is that of three.
    s = settled(random_world(3))
    grown = phase(s.now, s.now, 1, Fork(0, 0, 2))
    wrong_D = expected_gradient(grown, WithTrunk(1), SUM, s.policy.score, s.now_D)
    exact_D = turn_gradient(s.world, s.policy, s.now_D, s.now_D, 1)
    assert_multiple(Gradients(wrong_D, exact_D), 2 / 3)


def test_control_gradient_on_later_turns_breaks_it():
    s = setting(random_world(3), 1)
    fork = Fork(0, 0, 2)
    right = phase_gradients(s, 1, fork)
    grown = phase(s.before, s.now, 1, fork, all_paths=True)
    wrong_D = expected_gradient(grown, LaterTurnsToo(), SUM, s.policy.score, s.now_D)
    assert right.estimated_D.view(3, -1)[2].abs().max() == 0
    assert wrong_D.view(3, -1)[2].norm() > 1e-2
    # And the turn itself gets half its step, since twice as many rows share it.
    mine = Gradients(wrong_D.view(3, -1)[1], right.exact_D.view(3, -1)[1])
    assert mine.factor == pytest.approx(1 / 4)

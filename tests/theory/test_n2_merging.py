"""N2, where siblings that lead to the same state share their continuations."""

import pytest
import torch

from retrograde.credit.sibling_mean import SiblingMean
from retrograde.data.tree import End
from retrograde.rollouts.plans import Fork

from .growth import expected_gradient, phase
from .mdp import World, random_world
from .measured import SUM, phase_gradients, setting, settled, sibling_mse


@pytest.mark.parametrize(("n", "continuations"), [(2, 1), (2, 3), (3, 1), (3, 2)])
@pytest.mark.parametrize("turn", [0, 1])
def test_merging_does_not_change_the_expected_gradient(turn, n, continuations):
    s = setting(random_world(21, (3, 2, 2)), turn)
    alone = phase_gradients(s, turn, Fork(0, turn - 1, n))
    shared = phase_gradients(s, turn, Fork(0, turn - 1, n, continuations))
    torch.testing.assert_close(shared.estimated_D, alone.estimated_D, atol=1e-12, rtol=0)
    expected = (n - 1) / n * shared.exact_D
    torch.testing.assert_close(shared.estimated_D, expected, atol=1e-12, rtol=0)
    assert shared.exact_D.norm() > 1e-3


def test_merging_with_bonuses_and_early_ends():
    # Siblings that lead to one state differ by what they earned on the way; others are over.
    s = setting(random_world(22, (2, 2, 2), stops=True, bonus=True), 0)
    for continuations in (0, 1, 2):
        gradients = phase_gradients(s, 0, Fork(0, -1, 2, continuations))
        expected = 1 / 2 * gradients.exact_D
        torch.testing.assert_close(gradients.estimated_D, expected, atol=1e-12, rtol=0)


def test_every_way_to_merge_was_enumerated():
    s = settled(random_world(21, (2, 2, 2), stops=True))
    seen = {
        turn.end
        for _, (group,) in phase(s.now, s.now, 0, Fork(0, -1, 3, 2))
        for turn in group.trees[0].turns
    }
    assert {End.MERGED, End.SPARED, End.FINISHED} <= seen


def funnel(bonus: float) -> World:
    """Two turns. Both first actions lead to state 1; the first one earns a bonus."""
    chance = torch.zeros(2, 2, 2, 4, dtype=torch.float64)
    chance[0, :, :, 1] = 1.0
    chance[1, :, 0, 2] = chance[1, :, 1, 3] = 1.0
    earned = torch.zeros(2, 2, 2, dtype=torch.float64)
    earned[0, :, 0] = bonus
    return World(torch.tensor([0.5, 0.5], dtype=torch.float64), chance, earned)


def test_where_all_siblings_lead_to_one_state_nothing_is_continued_and_nothing_learned():
    s = settled(funnel(0.0))
    fork = Fork(0, -1, 2, 1)
    for _, (group,) in phase(s.now, s.now, 0, fork):
        ends = [turn.end for turn in group.trees[0].turns if turn.grown_in == 1]
        assert ends == [End.SPARED, End.MERGED]
    gradients = phase_gradients(s, 0, fork)
    assert torch.equal(gradients.estimated_D, torch.zeros_like(gradients.estimated_D))
    torch.testing.assert_close(gradients.exact_D, torch.zeros_like(gradients.exact_D))


def test_a_bonus_on_the_way_still_counts_where_nothing_is_continued():
    s = settled(funnel(0.5))
    gradients = phase_gradients(s, 0, Fork(0, -1, 2, 1))
    torch.testing.assert_close(gradients.estimated_D, gradients.exact_D / 2, atol=1e-12, rtol=0)
    assert gradients.exact_D.norm() > 1e-2


@pytest.mark.parametrize("hidden", [lambda _: 0, lambda state: min(state, 1)])
def test_control_merging_states_with_different_laws_is_wrong(hidden):
    # The first key hides all states, so that everything is spared; the second hides some.
    world = random_world(23, (2, 3, 3))
    s = settled(world)
    fork = Fork(0, -1, 2, 1)
    right = phase_gradients(s, 0, fork)
    grown = phase(s.now, s.now, 0, fork, hidden)
    wrong_D = expected_gradient(grown, SiblingMean(), SUM, s.policy.score, s.now_D)
    torch.testing.assert_close(right.estimated_D, right.exact_D / 2, atol=1e-12, rtol=0)
    assert (wrong_D - right.exact_D / 2).norm() > 0.05 * right.exact_D.norm()


def test_sharing_continuations_takes_noise_out_of_the_advantage():
    s = settled(random_world(21))
    alone, shared, thrice = (sibling_mse(s, 0, Fork(0, -1, 3, m)) for m in (0, 1, 3))
    assert thrice < shared < alone

"""Advantages of groups against verl's, and where ours differ on purpose."""

import pytest
import torch
from tests.theory.growth import exact_tokens

from retrograde.credit.group_relative import GroupRelative
from retrograde.data.tree import ROOT_PARENT, End, Group, Tree, Turn

from .padded import Ragged, ragged

pytestmark = pytest.mark.oracle

SEEDS = range(20)
CLOSE = {"atol": 1e-6, "rtol": 1e-6}


def ours(rollouts: Ragged, credit) -> torch.Tensor:
    return exact_tokens(rollouts.rows([credit(group, 0) for group in rollouts.groups])).advantage


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("name", ["grpo", "grpo_vectorized"])
def test_group_relative(verl, seed, scale, name):
    rollouts = ragged(seed, turn_rewards=seed % 2 == 0)
    theirs, _ = verl.get_adv_estimator_fn(name)(
        rollouts.reward_BL.clone(),
        rollouts.mask_BL,
        rollouts.index_B,
        norm_adv_by_std_in_grpo=scale,
    )
    mine_T = ours(rollouts, GroupRelative(scale))
    torch.testing.assert_close(mine_T, rollouts.tokens(theirs), **CLOSE)
    assert mine_T.abs().max() > 0.1


def test_a_wrong_standard_deviation_would_be_seen(verl):
    # Of a population, not of a sample: sqrt(3 / 2) more, for three rollouts.
    rollouts = ragged(1, sizes=(3,))
    theirs, _ = verl.compute_grpo_outcome_advantage(
        rollouts.reward_BL.clone(), rollouts.mask_BL, rollouts.index_B
    )
    wrong_T = ours(rollouts, GroupRelative()) * 1.5**0.5
    with pytest.raises(AssertionError):
        torch.testing.assert_close(wrong_T, rollouts.tokens(theirs), **CLOSE)


def one_token(reward: float) -> Tree:
    return Tree((Turn(ROOT_PARENT, 0, (1,), (1,), (2,), (-0.5,), 0, 0, reward, End.FINISHED),))


def differing(verl, returns: list[float]) -> tuple[list[float], list[float]]:
    """Advantages of one group of one-token rollouts: ours, and verl's in the float32 it runs in."""
    (*judged,) = GroupRelative()(Group("task", tuple(map(one_token, returns))), 0)
    theirs, _ = verl.compute_grpo_outcome_advantage(
        torch.tensor(returns).view(-1, 1), torch.ones(len(returns), 1), [0] * len(returns)
    )
    return [j.advantage_V[0] for j in judged], theirs.flatten().tolist()


def test_equal_returns_give_exactly_nothing_where_verl_gives_dust(verl):
    # The float32 mean of three 0.9 is another number than 0.9, and so is their deviation from 0.
    mine, theirs = differing(verl, [0.9, 0.9, 0.9])
    assert mine == [0.0, 0.0, 0.0]
    assert all(abs(advantage) > 0.05 for advantage in theirs)


def test_a_rollout_without_others_gives_nothing_where_verl_gives_its_return(verl):
    assert differing(verl, [0.7]) == ([0.0], pytest.approx([0.7], abs=1e-5))

"""Advantages and a critic's loss against verl's, and where ours differ on purpose."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tests.theory.growth import exact_tokens

from retrograde.credit.gae import GAE
from retrograde.credit.group_relative import GroupRelative
from retrograde.credit.outcome import Outcome
from retrograde.credit.to_go import ReturnToGo
from retrograde.credit.whitening import Whitened
from retrograde.data.evidence import Evidence
from retrograde.data.tree import ROOT_PARENT, End, Group, Tree, Turn
from retrograde.losses.value import ValueLoss

from .padded import Ragged, ragged

pytestmark = pytest.mark.oracle

SEEDS = range(20)
CLOSE = {"atol": 1e-6, "rtol": 1e-6}


def ours(rollouts: Ragged, credit, normalise=lambda rows: rows) -> torch.Tensor:
    rows = rollouts.rows([credit(group, 0) for group in rollouts.groups])
    return exact_tokens(normalise(rows)).advantage


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


# --- other baselines ------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ["rloo", "rloo_vectorized"])
def test_leave_one_out(verl, seed, name):
    rollouts = ragged(seed, turn_rewards=seed % 2 == 0)
    theirs, _ = verl.get_adv_estimator_fn(name)(
        rollouts.reward_BL.clone(), rollouts.mask_BL, rollouts.index_B
    )
    torch.testing.assert_close(ours(rollouts, Outcome("others")), rollouts.tokens(theirs), **CLOSE)


@pytest.mark.parametrize("seed", SEEDS)
def test_returns_to_go_whitened(verl, seed):
    # Their discount is one of tokens; ours has none, which is theirs at 1.
    rollouts = ragged(seed, turn_rewards=seed % 2 == 0)
    theirs, _ = verl.compute_reinforce_plus_plus_outcome_advantage(
        rollouts.reward_BL.clone(), rollouts.mask_BL, config=SimpleNamespace(gamma=1.0)
    )
    mine_T = ours(rollouts, ReturnToGo(), Whitened())
    torch.testing.assert_close(mine_T, rollouts.tokens(theirs), **CLOSE)
    assert mine_T.std() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_group_mean_whitened(verl, seed):
    rollouts = ragged(seed, turn_rewards=seed % 2 == 0)
    theirs, _ = verl.compute_reinforce_plus_plus_baseline_outcome_advantage(
        rollouts.reward_BL.clone(), rollouts.mask_BL, rollouts.index_B
    )
    mine_T = ours(rollouts, Outcome("mean"), Whitened())
    torch.testing.assert_close(mine_T, rollouts.tokens(theirs), **CLOSE)


# --- a critic -------------------------------------------------------------------------------


def valued(rollouts: Ragged, value_T: torch.Tensor) -> list[Evidence]:
    """What a critic says of each action token, as evidence on each group."""
    said = iter(value_T.tolist())
    return [
        Evidence(
            values={
                (t, i): tuple(next(said) for _ in turn.action)
                for t, tree in enumerate(group.trees)
                for i, turn in enumerate(tree.turns)
            }
        )
        for group in rollouts.groups
    ]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("gamma", "lam"), [(1.0, 1.0), (0.97, 0.9), (0.9, 0.0)])
@pytest.mark.parametrize("turns", [False, True])
def test_generalized_advantages(verl, seed, gamma, lam, turns):
    # With actions of one token, a state for each turn is a state for each token.
    rollouts = ragged(seed, turn_rewards=seed % 2 == 0, most_tokens=1 if turns else 5)
    noise = torch.Generator().manual_seed(seed)
    value_T = torch.randn(int(rollouts.mask_BL.sum()), generator=noise, dtype=torch.float64)
    theirs, their_returns = verl.compute_gae_advantage_return(
        rollouts.reward_BL, rollouts.rectangle(value_T), rollouts.mask_BL, gamma, lam
    )
    credit = GAE(gamma, lam, turns=turns)
    said = valued(rollouts, value_T)
    judged = [credit(g, 0, known) for g, known in zip(rollouts.groups, said, strict=True)]
    rows = Whitened(turns=turns)(rollouts.rows(judged))
    torch.testing.assert_close(exact_tokens(rows).advantage, rollouts.tokens(theirs), **CLOSE)
    returns_T = torch.tensor([v for row in rows for v in row.target], dtype=torch.float64)
    torch.testing.assert_close(returns_T, rollouts.tokens(their_returns), **CLOSE)


@pytest.mark.parametrize("seed", SEEDS)
def test_value_loss(verl, seed):
    rollouts = ragged(seed)
    noise = torch.Generator().manual_seed(seed)
    shape = {"generator": noise, "dtype": torch.float64}
    value_T, moved_T = (torch.randn(int(rollouts.mask_BL.sum()), **shape) for _ in range(2))
    said = valued(rollouts, value_T)
    judged = [GAE()(g, 0, known) for g, known in zip(rollouts.groups, said, strict=True)]
    rows = rollouts.rows(judged)
    now_T = (value_T + 0.5 * moved_T).requires_grad_()
    mine, figures = ValueLoss(clip=0.2)(now_T, rows, len(now_T))
    returns_T = torch.tensor([v for row in rows for v in row.target], dtype=torch.float64)
    theirs, clipped = verl.compute_value_loss(
        *map(rollouts.rectangle, (now_T, returns_T, value_T)), rollouts.mask_BL, 0.2
    )
    torch.testing.assert_close(mine, theirs, **CLOSE)
    mine_grad, their_grad = (torch.autograd.grad(loss, now_T)[0] for loss in (mine, theirs))
    torch.testing.assert_close(mine_grad, their_grad, **CLOSE)
    assert figures["value/clip_ratio"] == pytest.approx(float(clipped), abs=1e-6)
    assert float(clipped) > 0


# --- where ours differ on purpose -----------------------------------------------------------


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


def test_one_rollout_alone_is_left_out_where_verl_keeps_its_return(verl):
    # verl's two implementations of RLOO differ here; ours agrees with the second.
    (judged,) = Outcome("others")(Group("task", (one_token(0.7),)), 0)
    returns, mask = torch.tensor([[0.7]]), torch.ones(1, 1)
    first, _ = verl.compute_rloo_outcome_advantage(returns.clone(), mask, np.array([0]))
    second, _ = verl.compute_rloo_vectorized_outcome_advantage(returns, mask, np.array([0]))
    assert (judged.advantage_V, float(first), float(second)) == (
        (0.0,),
        pytest.approx(0.7),
        0.0,
    )


def test_failed_rollouts_are_no_part_of_a_mean_where_verl_counts_them_as_nothing_earned(verl):
    # Returns 1 and 0, and one that failed: ours are 1/2 and -1/2, verl's 2/3 and -1/3.
    failed = Tree((replace(one_token(0.0).turns[0], end=End.FAILED),))
    judged = GroupRelative(scale=False)(Group("task", (one_token(1.0), one_token(0.0), failed)), 0)
    assert [j.advantage_V[0] for j in judged[:2]] == [0.5, -0.5]
    assert judged[2].trains_V == (False,)
    theirs, _ = verl.compute_grpo_outcome_advantage(
        torch.tensor([[1.0], [0.0], [0.0]]), torch.tensor([[1.0], [1.0], [0.0]]), [0, 0, 0],
        norm_adv_by_std_in_grpo=False,
    )  # fmt: skip
    assert theirs[:2].flatten().tolist() == pytest.approx([2 / 3, -1 / 3])

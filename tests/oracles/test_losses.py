"""Losses, their means and their gradients against verl's, and where ours differ on purpose."""

from dataclasses import replace

import pytest
import torch
from tests.theory.growth import exact_tokens
from torch import Tensor

from retrograde.credit.standing import by_rollout, outcomes
from retrograde.data.batch import ActionTokens
from retrograde.losses.policy import Level, Mean, PolicyLoss, Surrogate
from retrograde.ops.divergences import k3

from .padded import Ragged, ragged

pytestmark = pytest.mark.oracle

SEEDS = range(20)
CLOSE = {"atol": 1e-6, "rtol": 1e-6}
LOW, HIGH = 0.2, 0.28
NO_DUAL = 1e30
MODES = (
    # verl's way to add up, what it divides by, and ours
    ("token-mean", None, {"mean": Mean.TOKEN}),
    ("seq-mean-token-mean", None, {"mean": Mean.ROLLOUT}),
    ("seq-mean-token-sum", None, {"mean": Mean.ROLLOUT_SUM}),
    ("seq-mean-token-sum-norm", 7, {"mean": Mean.ROLLOUT_SUM, "length": 7.0}),
)
PLAIN = [(mode, choice) for mode, length, choice in MODES if length is None]


def drawn(seed: int, spread: float = 0.3) -> tuple[Ragged, ActionTokens, Tensor]:
    """Rollouts, some of which failed; their tokens with an advantage each; log pi of now."""
    rollouts = ragged(seed, fails=0.3)
    rows = rollouts.rows([by_rollout(group, outcomes(group)) for group in rollouts.groups])
    tokens = exact_tokens(rows)
    noise = torch.Generator().manual_seed(seed)
    shape = {"generator": noise, "dtype": torch.float64}
    advantage_T = torch.randn(len(tokens.turn), **shape)
    logp_T = tokens.behaviour_logp + spread * torch.randn(len(tokens.turn), **shape)
    return rollouts, replace(tokens, advantage=advantage_T), logp_T.requires_grad_()


def ours(loss: PolicyLoss, tokens: ActionTokens, logp_T: Tensor) -> tuple[Tensor, Tensor]:
    value = loss(logp_T, tokens, loss.weights(tokens))
    return value, torch.autograd.grad(value, logp_T)[0]


def theirs(function, rollouts: Ragged, tokens: ActionTokens, logp_T: Tensor, **options):
    value, metrics = function(
        rollouts.rectangle(tokens.behaviour_logp),
        rollouts.rectangle(logp_T),
        rollouts.rectangle(tokens.advantage),
        rollouts.mask_BL,
        **options,
    )
    return (value, torch.autograd.grad(value, logp_T)[0]), metrics


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("mode", "length", "choice"), MODES)
def test_means(verl, seed, mode, length, choice):
    rollouts, tokens, logp_T = drawn(seed)
    their_loss = verl.agg_loss(
        rollouts.rectangle(logp_T), rollouts.mask_BL, mode, loss_scale_factor=length
    )
    loss_T = PolicyLoss(**choice).weights(tokens) * logp_T
    torch.testing.assert_close(loss_T.sum(), their_loss, **CLOSE)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_sum_over_all_tokens_is_their_mean_times_their_number(verl, seed):
    # We have no such mean: its length grows with the update.
    rollouts, tokens, logp_T = drawn(seed)
    their_loss = verl.agg_loss(rollouts.rectangle(logp_T), rollouts.mask_BL, "token-sum")
    mean_T = PolicyLoss(mean=Mean.TOKEN).weights(tokens) * len(logp_T)
    torch.testing.assert_close((mean_T * logp_T).sum(), their_loss, **CLOSE)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("mode", "mean"),
    [
        ("seq-mean-token-mean", Mean.TURN),
        ("seq-mean-token-sum", Mean.SUM),
        ("seq-mean-token-mean", Mean.ROLLOUT_TURNS),
    ],
)
def test_means_over_turns_are_theirs_with_a_turn_in_each_row(verl, seed, mode, mean):
    rollouts, tokens, logp_T = drawn(seed)
    mask = rollouts.turn_rows(rollouts.mask_BL)
    theirs = verl.agg_loss(rollouts.turn_rows(rollouts.rectangle(logp_T)), mask, mode)
    if mean is Mean.ROLLOUT_TURNS:  # a sum over turns, and a mean over rollouts
        theirs = theirs * tokens.num_turns / tokens.num_rollouts
    loss_T = PolicyLoss(mean=mean).weights(tokens) * logp_T
    torch.testing.assert_close(loss_T.sum(), theirs, **CLOSE)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_update_in_parts_has_the_mean_of_the_whole(verl, seed):
    rollouts, tokens, logp_T = drawn(seed)
    loss_BL, mask_BL = rollouts.rectangle(logp_T), rollouts.mask_BL
    number = int(mask_BL.sum())
    parts = [
        verl.agg_loss(loss_BL[half], mask_BL[half], "token-mean", batch_num_tokens=number)
        for half in (slice(0, 4), slice(4, None))
    ]
    loss_T = PolicyLoss(mean=Mean.TOKEN).weights(tokens) * logp_T
    torch.testing.assert_close(loss_T.sum(), parts[0] + parts[1], **CLOSE)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("mode", "choice"), PLAIN)
@pytest.mark.parametrize("dual", [1.5, None])
def test_clipped(verl, actor_config, seed, mode, choice, dual):
    # Ratios go far enough for every bound to be met; that they are is checked below.
    rollouts, tokens, logp_T = drawn(seed, spread=0.8)
    loss = PolicyLoss(LOW, HIGH, dual_clip=dual, **choice)
    config = actor_config(LOW, HIGH, dual or NO_DUAL)
    expected, metrics = theirs(
        verl.compute_policy_loss_vanilla, rollouts, tokens, logp_T,
        loss_agg_mode=mode, config=config,
    )  # fmt: skip
    torch.testing.assert_close(ours(loss, tokens, logp_T), expected, **CLOSE)
    counted = loss.statistics(logp_T, tokens)
    share = counted["clipped"] / counted["tokens"]
    assert share == pytest.approx(metrics["actor/pg_clipfrac"], abs=1e-6)
    assert share > 0
    assert (metrics["actor/pg_clipfrac_lower"] > 0) == (dual is not None)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("mode", "choice"), PLAIN)
def test_ratios_of_rollouts(verl, actor_config, seed, mode, choice):
    rollouts, tokens, logp_T = drawn(seed)
    low, high = 0.05, 0.08
    expected, metrics = theirs(
        verl.compute_policy_loss_gspo, rollouts, tokens, logp_T,
        loss_agg_mode=mode, config=actor_config(low, high, NO_DUAL),
    )  # fmt: skip
    loss = PolicyLoss(low, high, ratio=Level.ROLLOUT, **choice)
    torch.testing.assert_close(ours(loss, tokens, logp_T), expected, **CLOSE)
    assert metrics["actor/pg_clipfrac"] > 0


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("mode", "choice"), PLAIN)
def test_clipped_weights(verl, actor_config, seed, mode, choice):
    rollouts, tokens, logp_T = drawn(seed, spread=0.8)
    expected, metrics = theirs(
        verl.compute_policy_loss_cispo, rollouts, tokens, logp_T,
        loss_agg_mode=mode, config=actor_config(LOW, HIGH, NO_DUAL),
    )  # fmt: skip
    loss = PolicyLoss(LOW, HIGH, surrogate=Surrogate.CLIPPED_WEIGHT, **choice)
    torch.testing.assert_close(ours(loss, tokens, logp_T), expected, **CLOSE)
    assert metrics["actor/pg_clipfrac"] > 0


@pytest.mark.parametrize("seed", SEEDS)
def test_penalty(verl, seed):
    _, tokens, logp_T = drawn(seed, spread=0.8)
    mine, their = (
        function(logp_T, tokens.behaviour_logp)
        for function in (k3, lambda now, then: verl.kl_penalty(now, then, "k3"))
    )
    torch.testing.assert_close(mine, their, **CLOSE)
    mine_grad, their_grad = (torch.autograd.grad(v.sum(), logp_T)[0] for v in (mine, their))
    torch.testing.assert_close(mine_grad, their_grad, **CLOSE)


def test_huge_ratios_are_what_they_are_where_verl_bounds_them(verl, actor_config):
    # exp(25) of a bad token: no bound of PPO's is active, and the loss is -A ratio. verl bounds
    # the log-ratio by 20 first, which loses the token's gradient; ours keeps it, unless dual_clip
    # asks otherwise.
    rollouts, tokens, _ = drawn(0)
    tokens = replace(tokens, advantage=-torch.ones_like(tokens.advantage))
    logp_T = (tokens.behaviour_logp + 25.0).requires_grad_()
    (_, their_grad), _ = theirs(
        verl.compute_policy_loss_vanilla, rollouts, tokens, logp_T,
        loss_agg_mode="token-mean", config=actor_config(LOW, HIGH, NO_DUAL),
    )  # fmt: skip
    _, mine_grad = ours(PolicyLoss(LOW, HIGH, mean=Mean.TOKEN), tokens, logp_T)
    assert not their_grad.any()
    each = torch.full_like(logp_T, 25.0).exp() / len(logp_T)
    torch.testing.assert_close(mine_grad, each.detach(), rtol=1e-6, atol=0)
    dual = PolicyLoss(LOW, HIGH, mean=Mean.TOKEN, dual_clip=3.0)
    assert not ours(dual, tokens, logp_T)[1].any()

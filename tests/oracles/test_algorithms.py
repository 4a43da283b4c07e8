"""Whole algorithms, from returns to the gradient of the loss, against verl's parts put together.

The advantages and the loss of a registered algorithm at its defaults, on rollouts whose policy has
moved. What is compared is what verl's trainer would have computed of the same rollouts.
"""

from types import SimpleNamespace
from typing import NamedTuple

import pytest
import torch
from tests.theory.growth import exact_tokens

from retrograde.algorithms.algorithm import Algorithm
from retrograde.algorithms.registry import algorithm_named
from retrograde.losses.value import ValueLoss

from .padded import ragged
from .test_advantages import valued

pytestmark = pytest.mark.oracle

CLOSE = {"atol": 1e-6, "rtol": 1e-6}
NO_DUAL = 1e30


class Case(NamedTuple):
    """An algorithm of ours, and what to choose in verl for the same."""

    name: str
    options: dict
    estimator: str
    loss: str
    mode: str
    bounds: tuple[float, float, float] = (0.2, 0.2, NO_DUAL)
    length: int | None = None
    scale: bool = True


CASES = (
    Case("grpo", {}, "grpo", "vanilla", "token-mean"),
    Case("grpo", {"mean": "rollout"}, "grpo", "vanilla", "seq-mean-token-mean"),
    Case("grpo", {"scale": False}, "grpo", "vanilla", "token-mean", scale=False),
    Case(
        "dr_grpo", {"length": 32.0}, "grpo", "vanilla", "seq-mean-token-sum-norm",
        length=32, scale=False,
    ),
    Case("rloo", {"clip": 0.2}, "rloo", "vanilla", "token-mean"),
    Case("reinforce_pp", {}, "reinforce_plus_plus", "vanilla", "token-mean"),
    Case(
        "reinforce_pp", {"baseline": "group"}, "reinforce_plus_plus_baseline", "vanilla",
        "token-mean",
    ),
    Case("ppo", {}, "gae", "vanilla", "token-mean"),
    Case("ppo", {"dual_clip": 3.0, "lam": 0.95}, "gae", "vanilla", "token-mean", (0.2, 0.2, 3.0)),
    Case("dapo", {}, "grpo", "vanilla", "token-mean", (0.2, 0.28, NO_DUAL)),
    Case("gspo", {}, "grpo", "gspo", "seq-mean-token-mean", (3e-4, 4e-4, NO_DUAL)),
    Case("cispo", {}, "grpo", "cispo", "token-mean"),
)  # fmt: skip


def bounds_of(algorithm: Algorithm) -> tuple[float, float]:
    return algorithm.loss.clip_low, algorithm.loss.clip_high


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name}-{case.options}")
def test_gradient_of_an_update(verl, actor_config, case, seed):
    algorithm = algorithm_named(case.name)(**case.options)
    if case.loss != "cispo":
        assert bounds_of(algorithm) == case.bounds[:2]
    rollouts = ragged(seed, turn_rewards=seed % 2 == 0)
    noise = torch.Generator().manual_seed(seed)
    shape = {"generator": noise, "dtype": torch.float64}
    size = int(rollouts.mask_BL.sum())
    value_T = torch.randn(size, **shape)

    said = valued(rollouts, value_T)
    judged = [algorithm.credit(g, 0, known) for g, known in zip(rollouts.groups, said, strict=True)]
    rows = rollouts.rows(judged)
    if algorithm.normalise is not None:
        rows = algorithm.normalise(rows)
    tokens = exact_tokens(rows)
    spread = 1e-3 if case.loss == "gspo" else 0.3
    logp_T = (tokens.behaviour_logp + spread * torch.randn(size, **shape)).requires_grad_()
    mine = algorithm.loss(logp_T, tokens, algorithm.loss.weights(tokens))

    their_advantages = estimated(verl, case, rollouts, value_T, algorithm)
    low, high = bounds_of(algorithm)
    config = actor_config(low, high, case.bounds[2])
    config.global_batch_info["loss_scale_factor"] = case.length
    theirs, _ = verl.get_policy_loss_fn(case.loss)(
        rollouts.rectangle(tokens.behaviour_logp),
        rollouts.rectangle(logp_T),
        their_advantages,
        rollouts.mask_BL,
        loss_agg_mode=case.mode,
        config=config,
    )
    torch.testing.assert_close(mine, theirs, **CLOSE)
    mine_grad, their_grad = (torch.autograd.grad(loss, logp_T)[0] for loss in (mine, theirs))
    torch.testing.assert_close(mine_grad, their_grad, **CLOSE)
    assert mine_grad.abs().max() > 1e-4


def estimated(verl, case, rollouts, value_T, algorithm):
    """verl's advantages."""
    estimator = verl.get_adv_estimator_fn(case.estimator)
    if case.estimator == "gae":
        credit = algorithm.credit
        assert isinstance(algorithm.critic, ValueLoss)
        value_BL = rollouts.rectangle(value_T)
        found, _ = estimator(
            rollouts.reward_BL, value_BL, rollouts.mask_BL, credit.gamma, credit.lam
        )
        return found
    found, _ = estimator(
        token_level_rewards=rollouts.reward_BL.clone(),
        response_mask=rollouts.mask_BL,
        **({} if case.estimator == "reinforce_plus_plus" else {"index": rollouts.index_B}),
        config=SimpleNamespace(gamma=1.0),
        **({"norm_adv_by_std_in_grpo": case.scale} if case.estimator == "grpo" else {}),
    )
    return found

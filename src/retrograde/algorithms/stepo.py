"""STEPO: GRPO in which a rollout of many turns weighs no more than one of few.

Source: EvoCUA-1.5, arXiv:2607.09773, step-level policy optimization.
Differs from the source:
    The mean over a turn's tokens and over rollouts is ours, as are the defaults: it states none.
"""

from typing import Literal, Unpack

from retrograde.algorithms.algorithm import Algorithm, Chains, Mean, PolicyLoss, Steps, Update
from retrograde.credit.turn_share import TurnShare


def stepo(
    *,
    rollouts: int = 8,
    std: Literal["population", "sample"] = "population",
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    kl: float = 0.0,
    **steps: Unpack[Steps],
) -> Algorithm:
    """Step-Level Policy Optimization.

    Args:
        rollouts: rollouts of each task (ours).
        std: which standard deviation (ours).
        clip_low: bound of the token ratio below 1 (ours).
        clip_high: bound of the token ratio above 1 (ours).
        kl: coefficient of the k3 penalty against the initial policy.
    """
    loss = PolicyLoss(clip_low, clip_high, mean=Mean.ROLLOUT_TURNS, kl=kl)
    return Algorithm(
        Chains(rollouts, least=2), TurnShare(population=std == "population"), loss, Update(**steps)
    )

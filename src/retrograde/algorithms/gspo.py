"""GSPO: one importance ratio for a rollout, the geometric mean of its tokens' ratios.

Source: Zheng et al. 2025, arXiv:2507.18071, section 4, in the token form (GSPO-token).
Differs from the source:
    The ratio is over the action tokens of all turns of a rollout, each under its exact context.
"""

from typing import Unpack

from retrograde.algorithms.algorithm import Algorithm, Chains, Steps, Update
from retrograde.credit.group_relative import GroupRelative
from retrograde.losses.policy import Level, Mean, PolicyLoss


def gspo(
    *,
    rollouts: int = 8,
    clip_low: float = 3e-4,
    clip_high: float = 4e-4,
    kl: float = 0.0,
    **steps: Unpack[Steps],
) -> Algorithm:
    """Group Sequence Policy Optimization.

    Args:
        rollouts: rollouts of each task, at least 2.
        clip_low: bound of the rollout's ratio below 1.
        clip_high: bound of the rollout's ratio above 1.
        kl: coefficient of the k3 penalty against the initial policy.
    """
    loss = PolicyLoss(clip_low, clip_high, ratio=Level.ROLLOUT, mean=Mean.ROLLOUT, kl=kl)
    return Algorithm(Chains(rollouts, least=2), GroupRelative(), loss, Update(**steps))

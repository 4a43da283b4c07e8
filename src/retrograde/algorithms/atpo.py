"""ATPO: the loss of AT2PO on plain rollouts; each turn has one ratio and is clipped as one.

Source: AT2PO, arXiv:2601.04767, equation of the turn-level objective, without the tree.
Differs from the source:
    The source has no row for it: there the loss comes on top of a random tree. Groups are 8
    rollouts; the baselines of the paper have 16.
"""

from typing import Unpack

from retrograde.algorithms.algorithm import Algorithm, Chains, Steps, Update
from retrograde.credit.group_relative import GroupRelative
from retrograde.losses.policy import Level, Mean, PolicyLoss


def atpo(
    *,
    rollouts: int = 8,
    scale: bool = True,
    clip_low: float = 3e-3,
    clip_high: float = 4e-3,
    kl: float = 0.0,
    **steps: Unpack[Steps],
) -> Algorithm:
    """Agentic Turn-based Policy Optimization.

    Args:
        rollouts: rollouts of each task.
        scale: divide the advantage by the group's standard deviation.
        clip_low: bound of the turn's ratio below.
        clip_high: bound of the turn's ratio above.
        kl: coefficient of the k3 penalty against the initial policy.
    """
    loss = PolicyLoss(clip_low, clip_high, ratio=Level.TURN, mean=Mean.ROLLOUT, kl=kl)
    return Algorithm(Chains(rollouts, least=2), GroupRelative(scale), loss, Update(**steps))

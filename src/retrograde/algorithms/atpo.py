"""ATPO: the loss of AT2PO on plain rollouts; each turn has one ratio and is clipped as one.

Source:
    AT2PO, arXiv:2601.04767, the turn-level objective without the tree.
Differs from the source:
    There the loss comes on top of a random tree at the least; see `random_tree`.
"""

from typing import Unpack

from retrograde.algorithms.algorithm import Algorithm
from retrograde.credit.group_relative import GroupRelative
from retrograde.losses.policy import Level, Mean, PolicyLoss
from retrograde.rollouts.plans import Chains
from retrograde.schedules.steps import Steps
from retrograde.schedules.update import Update


def atpo(
    *,
    rollouts: int = 8,
    scale: bool = True,
    clip_low: float = 3e-3,
    clip_high: float = 4e-3,
    **steps: Unpack[Steps],
) -> Algorithm:
    """Agentic Turn-based Policy Optimization.

    Args:
        rollouts: rollouts of each task (ours; the paper's baselines have 16).
        scale: divide the advantage by the group's standard deviation.
        clip_low: bound of the turn's ratio below.
        clip_high: bound above.
        **steps: see `Steps`.
    """
    return Algorithm(
        grow=Chains(rollouts, least=2),
        credit=GroupRelative(scale),
        loss=PolicyLoss(clip_low, clip_high, ratio=Level.TURN, mean=Mean.ROLLOUT),
        update=Update(**steps),
    )

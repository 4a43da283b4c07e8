"""CISPO: the bounded ratio weighs log pi, so that no token loses its gradient.

Source: MiniMax-M1 2025, arXiv:2506.13585, equations 4 and 5.
Differs from the source:
    The paper does not state the upper bound; 1 + 4 is the 5 of TRL's documentation, which is
    `bound="absolute", clip_high=5`. `clip_low=.2, clip_high=.2` is verl.
"""

from typing import Literal, Unpack

from retrograde.algorithms.algorithm import Algorithm, Chains, Steps, Update
from retrograde.credit.group_relative import GroupRelative
from retrograde.losses.policy import Mean, PolicyLoss, Surrogate


def cispo(
    *,
    rollouts: int = 8,
    clip_low: float = 1.0,
    clip_high: float = 4.0,
    bound: Literal["relative", "absolute"] = "relative",
    **steps: Unpack[Steps],
) -> Algorithm:
    """Clipped importance-sampling weights.

    Args:
        rollouts: rollouts of each task, at least 2.
        clip_low: bound of the ratio below 1; 1 for none.
        clip_high: bound of the ratio above 1 (ours).
        bound: what clip_high counts from: 1, or 0 for a bound of the ratio itself.
    """
    high = clip_high if bound == "relative" else clip_high - 1.0
    loss = PolicyLoss(clip_low, high, mean=Mean.TOKEN, surrogate=Surrogate.CLIPPED_WEIGHT)
    return Algorithm(Chains(rollouts, least=2), GroupRelative(), loss, Update(**steps))

"""Objectives of one token, written as losses: to be minimised.

Shapes: T action tokens.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def clipped(
    ratio_T: Float[Tensor, " T"], advantage_T: Float[Tensor, " T"], low: float, high: float
) -> Float[Tensor, " T"]:
    """-min(ratio A, clip(ratio, 1 - low, 1 + high) A).

    Source:
        PPO, arXiv:1707.06347, equation 7; two bounds as in DAPO, arXiv:2503.14476, equation 8.
    """
    bounded_T = ratio_T.clamp(1.0 - low, 1.0 + high)
    return -torch.minimum(ratio_T * advantage_T, bounded_T * advantage_T)


def is_clipped(
    ratio_T: Float[Tensor, " T"], advantage_T: Float[Tensor, " T"], low: float, high: float
) -> Bool[Tensor, " T"]:
    """Whether the bound is active, so that the token gives no gradient."""
    too_high_T = (ratio_T > 1.0 + high) & (advantage_T > 0)
    too_low_T = (ratio_T < 1.0 - low) & (advantage_T < 0)
    return too_high_T | too_low_T

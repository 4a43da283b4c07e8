"""Objectives of one token, written as losses: to be minimised.

Bounds may be one number or one for each token. Shapes: T action tokens.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

Bound = float | Float[Tensor, " T"]


def clipped(
    ratio_T: Float[Tensor, " T"], advantage_T: Float[Tensor, " T"], low: Bound, high: Bound
) -> Float[Tensor, " T"]:
    """-min(ratio A, clip(ratio, 1 - low, 1 + high) A).

    Source:
        PPO, arXiv:1707.06347, equation 7; two bounds as in DAPO, arXiv:2503.14476, equation 8.
    """
    bounded_T = bounded(ratio_T, low, high)
    return -torch.minimum(ratio_T * advantage_T, bounded_T * advantage_T)


def dual_clipped(
    loss_T: Float[Tensor, " T"], advantage_T: Float[Tensor, " T"], most: float
) -> Float[Tensor, " T"]:
    """The clipped loss, at most -most A where A < 0: a huge ratio of a bad token stops counting.

    Source:
        Ye et al. 2019, arXiv:1912.09729, equation 4; verl's clip_ratio_c.
    """
    return torch.where(advantage_T < 0, torch.minimum(loss_T, -most * advantage_T), loss_T)


def clipped_weight(
    ratio_T: Float[Tensor, " T"],
    logp_T: Float[Tensor, " T"],
    advantage_T: Float[Tensor, " T"],
    low: Bound,
    high: Bound,
) -> Float[Tensor, " T"]:
    """-sg[clip(ratio, 1 - low, 1 + high)] A log pi: the weight is bounded, no gradient is lost.

    Source:
        CISPO, MiniMax-M1, arXiv:2506.13585, equations 4 and 5.
    """
    return -bounded(ratio_T.detach(), low, high) * advantage_T * logp_T


def softly_clipped(
    ratio_T: Float[Tensor, " T"], advantage_T: Float[Tensor, " T"], low: Bound, high: Bound
) -> Float[Tensor, " T"]:
    """`clipped`, but above the upper bound the gradient goes on, as (1 + high) ratio / sg[ratio].

    Source:
        AEPO, arXiv:2510.14545, entropy-balanced clipping.
    """
    held_T = (1.0 + high) * ratio_T / ratio_T.detach()
    bounded_T = torch.where(ratio_T > 1.0 + high, held_T, bounded(ratio_T, low, high))
    return -torch.minimum(ratio_T * advantage_T, bounded_T * advantage_T)


def weighted_logp(
    logp_T: Float[Tensor, " T"], advantage_T: Float[Tensor, " T"]
) -> Float[Tensor, " T"]:
    """-A log pi: plain policy gradient, without a ratio.

    Source:
        REINFORCE, Williams 1992, equation 8.
    """
    return -advantage_T * logp_T


def is_clipped(
    ratio_T: Float[Tensor, " T"], advantage_T: Float[Tensor, " T"], low: Bound, high: Bound
) -> Bool[Tensor, " T"]:
    """Whether the bound is active, so that the token gives no gradient."""
    too_high_T = (ratio_T > 1.0 + high) & (advantage_T > 0)
    too_low_T = (ratio_T < 1.0 - low) & (advantage_T < 0)
    return too_high_T | too_low_T


def bounded(ratio_T: Float[Tensor, " T"], low: Bound, high: Bound) -> Float[Tensor, " T"]:
    """clip(ratio, 1 - low, 1 + high)."""
    if isinstance(low, Tensor) or isinstance(high, Tensor):
        one_T = torch.ones_like(ratio_T)
        return ratio_T.clamp(one_T - low, one_T + high)
    return ratio_T.clamp(1.0 - low, 1.0 + high)

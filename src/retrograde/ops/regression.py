"""How far a critic's values are from what they should be.

Shapes: S states.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def clipped_error(
    value_S: Float[Tensor, " S"],
    behaviour_S: Float[Tensor, " S"],
    target_S: Float[Tensor, " S"],
    clip: float | None,
) -> Float[Tensor, " S"]:
    """.5 max((v - R)^2, (clip(v, v_old - c, v_old + c) - R)^2); without a clip .5 (v - R)^2.

    Args:
        value_S: what the critic says now, with gradient.
        behaviour_S: what it said when the advantages were taken.
        target_S: what it should say.
        clip: how far it may move in one update before it gets no gradient; None for any way.

    Source:
        PPO's published code; verl's compute_value_loss.
    """
    error_S = (value_S - target_S) ** 2
    if clip is None:
        return 0.5 * error_S
    bounded_S = value_S.clamp(behaviour_S - clip, behaviour_S + clip)
    return 0.5 * torch.maximum(error_S, (bounded_S - target_S) ** 2)


def is_error_clipped(
    value_S: Float[Tensor, " S"],
    behaviour_S: Float[Tensor, " S"],
    target_S: Float[Tensor, " S"],
    clip: float,
) -> Bool[Tensor, " S"]:
    """Whether the bound is active, so that the state gives no gradient."""
    bounded_S = value_S.clamp(behaviour_S - clip, behaviour_S + clip)
    return (bounded_S - target_S) ** 2 > (value_S - target_S) ** 2


def explained_variance(value_S: Float[Tensor, " S"], target_S: Float[Tensor, " S"]) -> float | None:
    """1 - Var(target - value) / Var(target): 1 for a perfect critic, 0 for a constant one.

    None where the targets do not vary.
    """
    around = float(((target_S - target_S.mean()) ** 2).sum())
    if around == 0:
        return None
    error_S = target_S - value_S
    return 1.0 - float(((error_S - error_S.mean()) ** 2).sum()) / around

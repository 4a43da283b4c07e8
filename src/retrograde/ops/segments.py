"""Sums and means over the tokens that belong together.

Shapes: T tokens, S segments.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def segment_sum(
    value_T: Float[Tensor, " T"], segment_T: Int[Tensor, " T"], num_segments: int
) -> Float[Tensor, " S"]:
    """Sum of each segment's values; 0 for an empty segment."""
    return value_T.new_zeros(num_segments).index_add(0, segment_T, value_T)


def segment_mean(
    value_T: Float[Tensor, " T"], segment_T: Int[Tensor, " T"], num_segments: int
) -> Float[Tensor, " S"]:
    """Mean of each segment's values; 0 for an empty segment."""
    size_S = segment_sum(torch.ones_like(value_T), segment_T, num_segments)
    return segment_sum(value_T, segment_T, num_segments) / size_S.clamp(min=1)

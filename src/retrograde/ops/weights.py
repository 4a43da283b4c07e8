"""A mean, written as one weight for each token.

Averages of averages are where losses go wrong when a batch is split. A weight
fixed over the whole update turns every mean into a sum, and sums may be split
over microbatches and ranks in any way without changing the gradient. Weights
are float64, so that their sums are exact enough to compare.

Shapes: T tokens.
"""

import torch
from jaxtyping import Float64, Int
from torch import Tensor


def equal_shares(segment_T: Int[Tensor, " T"], num_segments: int) -> Float64[Tensor, " T"]:
    """Weights under which each non-empty segment counts the same; they sum to 1.

    Args:
        segment_T: what counts as one: the token itself, its turn, or its rollout.
        num_segments: how many segments there are, empty ones included.
    """
    ones_T = torch.ones_like(segment_T, dtype=torch.float64)
    size_S = ones_T.new_zeros(num_segments).index_add(0, segment_T, ones_T)
    return 1.0 / (size_S[segment_T] * (size_S > 0).sum())


def segment_shares(segment_T: Int[Tensor, " T"], num_segments: int) -> Float64[Tensor, " T"]:
    """Weights under which each token counts one over the number of non-empty segments.

    They sum to the mean length of a segment: the tokens of a segment are summed, the
    segments averaged.
    """
    ones_T = torch.ones_like(segment_T, dtype=torch.float64)
    size_S = ones_T.new_zeros(num_segments).index_add(0, segment_T, ones_T)
    return ones_T / (size_S > 0).sum()

"""Attention on a trie by `flex_attention`: one fused kernel, which skips what nobody sees.

In depth-first order a token is seen by those behind it and before the end of what is below its
node, so the mask is two comparisons. It is the way of CUDA devices.

Source:
    Dong et al. 2024, arXiv:2412.05496 (FlexAttention and its block masks).
Differs from the source:
    nothing; the mask is ours.
"""

from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

SMALLEST_HEAD = 16
"""Width of a head below which the kernel does not work."""


def sees(end_N: Tensor, depth_N: Tensor, window: int | None) -> Any:
    """Whether a token is seen: an ancestor or itself, and near enough."""

    def is_seen(_batch: Tensor, _head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        below = (key <= query) & (query < end_N[key])
        if window is None:
            return below
        return below & (depth_N[query] - depth_N[key] < window)

    return is_seen


def block_mask(end_N: Tensor, depth_N: Tensor, window: int | None) -> BlockMask:
    """Which blocks of keys a block of queries has to look at."""
    size = len(end_N)
    mask = sees(end_N, depth_N, window)
    return create_block_mask(mask, None, None, size, size, device=str(end_N.device))


@cache
def _kernel(device: str) -> Any:
    """Compiled where that is what makes it fast; elsewhere it is the reference."""
    return torch.compile(flex_attention, dynamic=True) if device == "cuda" else flex_attention


def flex(query: Tensor, key: Tensor, value: Tensor, mask: BlockMask, scale: float) -> Tensor:
    """Attention; 1 x heads x N x D in and out, fewer key heads than query heads if need be."""
    return _kernel(query.device.type)(
        query, key, value, block_mask=mask, scale=scale, enable_gqa=query.shape[1] != key.shape[1]
    )

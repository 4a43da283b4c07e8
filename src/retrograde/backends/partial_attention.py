"""Attention to some of the keys, with the logsumexp that puts such parts together.

On the CPU it is PyTorch's flash kernel, which tells the logsumexp and takes it back; elsewhere it
is written out, so that a GPU can do without a kernel of its own where a context is read.

Shapes: S pieces, H heads, Q queries, K keys, D of a head; out S x H x Q x D, logsumexp S x H x Q.

Source:
    Dao et al. 2022, arXiv:2205.14135, Algorithm 4 (the backward pass from the logsumexp).
Differs from the source:
    written out, the scores of a piece are held at once.
"""

import torch
from torch import Tensor

flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu  # noqa: SLF001
flash_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward  # noqa: SLF001


def part(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, *, causal: bool, scale: float
) -> tuple[Tensor, Tensor]:
    """What queries read of these keys, and the logsumexp of their scores.

    Args:
        query: of each piece.
        key: of each piece.
        value: of each piece.
        mask: minus infinity where a key is hidden; a query may see none at all.
        causal: whether a query sees only the keys up to its own place.
        scale: of the scores.
    """
    if query.device.type != "cpu":
        return written_out(query, key, value, mask, causal=causal, scale=scale)
    out, lse = flash(query, key, value, 0.0, causal, attn_mask=mask, scale=scale)
    if mask is not None:  # of a query that sees no key the kernel says 0, as if it saw one
        lse = lse.masked_fill(mask.isneginf().all(-1), -torch.inf)
    return out, lse


def part_backward(
    grad: Tensor,
    inputs: tuple[Tensor, Tensor, Tensor],
    whole: tuple[Tensor, Tensor],
    mask: Tensor | None,
    *,
    causal: bool,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of queries, keys and values.

    Args:
        grad: of what was read.
        inputs: queries, keys and values.
        whole: what was read, and the logsumexp, over all keys of which these are a part.
        mask: as forwards.
        causal: as forwards.
        scale: as forwards.
    """
    if grad.device.type != "cpu":
        return written_out_backward(grad, inputs, whole, mask, causal=causal, scale=scale)
    return flash_backward(grad, *inputs, *whole, 0.0, causal, attn_mask=mask, scale=scale)


def _scores(
    query: Tensor, key: Tensor, mask: Tensor | None, *, causal: bool, scale: float
) -> Tensor:
    wide = torch.promote_types(query.dtype, torch.float32)
    score = (query.to(wide) * scale) @ key.to(wide).transpose(-1, -2)
    if causal:
        later = torch.ones(score.shape[-2:], dtype=torch.bool, device=score.device).triu(1)
        score = score.masked_fill(later, -torch.inf)
    return score if mask is None else score + mask


def written_out(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, *, causal: bool, scale: float
) -> tuple[Tensor, Tensor]:
    """`part` on any device."""
    score = _scores(query, key, mask, causal=causal, scale=scale)
    lse = score.logsumexp(-1)
    share = (score - lse.masked_fill(lse.isneginf(), 0.0)[..., None]).exp()
    return (share.to(value.dtype) @ value), lse


def written_out_backward(
    grad: Tensor,
    inputs: tuple[Tensor, Tensor, Tensor],
    whole: tuple[Tensor, Tensor],
    mask: Tensor | None,
    *,
    causal: bool,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """`part_backward` on any device."""
    query, key, value = inputs
    out, lse = whole
    score = _scores(query, key, mask, causal=causal, scale=scale)
    share = (score - lse[..., None]).exp()
    wide = share.dtype
    grad, query, key, value, out = (x.to(wide) for x in (grad, query, key, value, out))
    of_score = share * (grad @ value.transpose(-1, -2) - (grad * out).sum(-1, keepdim=True)) * scale
    found = (of_score @ key, of_score.transpose(-1, -2) @ query, share.transpose(-1, -2) @ grad)
    dtype = inputs[0].dtype
    return found[0].to(dtype), found[1].to(dtype), found[2].to(dtype)

"""Attention on a trie of tokens: each token sees its ancestors and what precedes it in its node.

A node is causal within itself, and everything below it sees all of it; no mask is made and no
pair is computed that does not count. Partial results are put together by their logsumexp, and
so, backwards, is the gradient: what a flash kernel needs of the softmax is its logsumexp over
all keys, whichever of them it is given.

Shapes: H heads, N packed tokens, D of a head; in a call, S pieces of Q queries and K keys, T
valid queries.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

from retrograde.backends.flex_route import SMALLEST_HEAD, flex
from retrograde.backends.layout import Call, Layout
from retrograde.backends.partial_attention import part, part_backward

NAME = "retrograde_trie"


def attended(
    q_HND: Tensor, k_HMD: Tensor, v_HMD: Tensor, layout: Layout, scale: float, window: int | None
) -> tuple[Tensor, Tensor]:
    """Attention of every query, and the logsumexp of its scores."""
    heads, tokens, width = q_HND.shape
    out_NHD = q_HND.new_empty(tokens, heads, width)
    lse_NH = q_HND.new_empty(tokens, heads, dtype=_precise(q_HND.dtype))
    for call in layout.calls:
        q, k, v = _at(q_HND, call.query_SQ), _at(k_HMD, call.key_SK), _at(v_HMD, call.key_SK)
        mask = _mask(call, layout, window, q)
        causal = call.causal and mask is None
        out, lse = part(q, k, v, mask, causal=causal, scale=scale)
        where = call.query_at
        new, new_lse = _valid(out, call), _valid(lse, call).to(lse_NH.dtype)
        if not call.causal:
            new, new_lse = _merged(out_NHD[where], lse_NH[where], new, new_lse)
        out_NHD.index_copy_(0, where, new.to(out_NHD.dtype))
        lse_NH.index_copy_(0, where, new_lse)
    return out_NHD.transpose(0, 1), lse_NH.T


class How(NamedTuple):
    """Who sees whom, and how scores are scaled."""

    layout: Layout
    scale: float
    window: int | None
    """Positions a token sees, itself counted; None for all."""


class TrieAttention(torch.autograd.Function):
    """Softmax attention of every token to its ancestors and itself."""

    @staticmethod
    def forward(ctx: Any, q_HND: Tensor, k_HND: Tensor, v_HND: Tensor, how: "How") -> Tensor:
        """Attend; queries, keys and values have equally many heads.

        Args:
            ctx: kept for the backward pass.
            q_HND: queries.
            k_HND: keys.
            v_HND: values.
            how: who sees whom.
        """
        out_HND, lse_HN = attended(q_HND, k_HND, v_HND, how.layout, how.scale, how.window)
        ctx.save_for_backward(q_HND, k_HND, v_HND, out_HND, lse_HN)
        ctx.how = how
        return out_HND

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Gradients of queries, keys and values."""
        (grad_HND,) = grads
        how: How = ctx.how
        q_HND, k_HND, v_HND, out_HND, lse_HN = ctx.saved_tensors
        found = [torch.zeros_like(each.transpose(0, 1)) for each in (q_HND, k_HND, v_HND)]
        for call in how.layout.calls:
            q, k, v = _at(q_HND, call.query_SQ), _at(k_HND, call.key_SK), _at(v_HND, call.key_SK)
            mask = _mask(call, how.layout, how.window, q)
            # Padded queries ask for nothing, so whatever they point at gets no gradient.
            grad = _at(grad_HND, call.query_SQ) * call.valid_SQ[:, None, :, None]
            whole = _at(out_HND, call.query_SQ), lse_HN[:, call.query_SQ].transpose(0, 1)
            causal = call.causal and mask is None
            parts = part_backward(grad, (q, k, v), whole, mask, causal=causal, scale=how.scale)
            for total_NHD, own, where in zip(
                found, parts, (call.query_SQ, call.key_SK, call.key_SK), strict=True
            ):
                total_NHD.index_add_(0, where.flatten(), own.transpose(1, 2).flatten(0, 1))
        return *(each.transpose(0, 1) for each in found), None


def _at(x_HND: Tensor, where_SL: Tensor) -> Tensor:
    """Pieces, as the kernel takes them: S, H, L, D."""
    x_LHD = x_HND.transpose(0, 1).index_select(0, where_SL.flatten())
    return x_LHD.unflatten(0, where_SL.shape).transpose(1, 2)


def _valid(x: Tensor, call: Call) -> Tensor:
    """What a kernel says of valid queries: T, H and what else it has."""
    return x.transpose(1, 2).flatten(0, 1).index_select(0, call.valid_at)


def _precise(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def _merged(out: Tensor, lse: Tensor, new: Tensor, new_lse: Tensor) -> tuple[Tensor, Tensor]:
    """Attention over two sets of keys, from that over each."""
    total = torch.logaddexp(lse, new_lse)
    share = (new_lse - total).exp()[..., None].to(out.dtype)
    return out * (1 - share) + new * share, total


def _mask(call: Call, layout: Layout, window: int | None, like: Tensor) -> Tensor | None:
    """Which keys are hidden, if it is not all of those that follow in a square, or none."""
    hidden = call.hidden_SQK
    if window is not None and call.reach >= window:
        gap = layout.query_depth_N[call.query_SQ][:, :, None]
        gap = gap - layout.key_depth[call.key_SK][:, None, :]
        if hidden is None and call.causal:
            hidden = torch.ones(gap.shape[1:], dtype=torch.bool, device=gap.device).triu(1)
        hidden = gap >= window if hidden is None else hidden | (gap >= window)
    if hidden is None:
        return None
    mask = torch.zeros(hidden.shape, dtype=like.dtype, device=like.device)
    return mask.masked_fill_(hidden, -torch.inf)[:, None]


def attend(
    module: nn.Module,  # noqa: ARG001 - transformers passes it
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,  # noqa: ARG001 - the layout is the mask
    *,
    scaling: float | None = None,
    sliding_window: int | None = None,
    layout: Layout | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """What transformers calls in each layer; one packed sequence, 1 x heads x N x D.

    Raises:
        ValueError: no layout was given, or the architecture asks for what is not computed here.
    """
    if layout is None:
        raise ValueError(f"{NAME} needs the layout of a trie")
    check_plain(options)
    return led(layout, query, key, value, scaling, sliding_window), None


def led(
    layout: Layout,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scaling: float | None = None,
    window: int | None = None,
) -> Tensor:
    """Attention along a trie; 1 x heads x N x D in, 1 x N x heads x D out."""
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    if query.is_cuda and query.shape[-1] >= SMALLEST_HEAD:
        return flex(query, key, value, layout.block_mask(window), scale).transpose(1, 2)
    groups = query.shape[1] // key.shape[1]
    k, v = (
        each[0].repeat_interleave(groups, 0) if groups > 1 else each[0] for each in (key, value)
    )
    out: Any = TrieAttention.apply(query[0], k, v, How(layout, scale, window))
    return out.transpose(0, 1)[None]


@contextmanager
def attending(model: PreTrainedModel, name: str) -> Iterator[None]:
    """Let a model attend in another way for a while."""
    before: Any = model.config._attn_implementation  # noqa: SLF001 - it has no public name
    model.set_attn_implementation(name)
    try:
        yield
    finally:
        model.set_attn_implementation(before)


def check_plain(options: Mapping[str, Any]) -> None:
    """See that nothing is asked for but a softmax over products.

    Raises:
        ValueError: the architecture caps its scores, or lets a sink take part.
    """
    for name in ("softcap", "s_aux"):
        if options.get(name) is not None:
            raise ValueError(f"attention with {name} is not computed here")


AttentionInterface.register(NAME, attend)
AttentionMaskInterface.register(NAME, lambda *_, **__: None)

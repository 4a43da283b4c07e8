"""Attention on a trie of tokens: each token sees its ancestors and what precedes it in its node.

A node is causal within itself, and everything below it sees all of it; no mask is made and no
pair is computed that does not count. Partial results are put together by their logsumexp, and
so, backwards, is the gradient: what a flash kernel needs of the softmax is its logsumexp over
all keys, whichever of them it is given.

Shapes: H heads, N packed tokens, D of a head; in a call, S pieces of Q queries and K keys.

Source:
    Dao et al. 2022, arXiv:2205.14135, Algorithm 4 (the backward pass from the logsumexp).
Differs from the source:
    blocks are nodes of a trie, so that shared keys are visited once.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface

from retrograde.data.trie import Node, Trie

NAME = "retrograde_trie"
WASTE = 1.25
"""Pieces of unequal length share a call while padding makes it at most this much larger."""
forward_call = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu  # noqa: SLF001
backward_call = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward  # noqa: SLF001


@dataclass(frozen=True)
class Call:
    """Pieces of equal shape that go through the kernel together."""

    query_SQ: Tensor
    """Where the queries lie; padding points at token 0."""
    key_SK: Tensor
    valid_SQ: Tensor
    """False at padding."""
    causal: bool
    """Whether a piece looks at itself; otherwise at all of a node above it."""
    reach: int
    """Largest distance between a query and a key of it, in positions."""


@dataclass(frozen=True)
class Layout:
    """Everything attention has to know of a trie."""

    calls: tuple[Call, ...]
    depth_N: Tensor

    @classmethod
    def of(cls, trie: Trie, device: torch.device) -> "Layout":
        """Plan the calls: nodes on themselves, then level by level what is below them."""
        calls = [
            _call(part, [(n.start, n.end) for n in part], trie, device, causal=True)
            for part in _alike(trie.nodes, [n.length for n in trie.nodes])
        ]
        inner: dict[tuple[int, int], list[Node]] = defaultdict(list)
        for node in trie.nodes:
            if node.below > node.end:
                inner[node.level, node.length].append(node)
        for nodes in inner.values():
            for part in _alike(nodes, [n.below - n.end for n in nodes]):
                below = [(n.end, n.below) for n in part]
                calls.append(_call(part, below, trie, device, causal=False))
        return cls(tuple(calls), torch.tensor(trie.depth_N, device=device))


def _alike(nodes: Sequence[Node], lengths: Sequence[int]) -> list[list[Node]]:
    """Parts of similar length."""
    parts: list[list[Node]] = []
    true = 0
    for i in sorted(range(len(nodes)), key=lambda i: lengths[i]):
        if parts and (len(parts[-1]) + 1) * lengths[i] <= WASTE * (true + lengths[i]):
            parts[-1].append(nodes[i])
            true += lengths[i]
        else:
            parts.append([nodes[i]])
            true = lengths[i]
    return parts


def _call(
    nodes: Sequence[Node],
    queries: Sequence[tuple[int, int]],
    trie: Trie,
    device: torch.device,
    *,
    causal: bool,
) -> Call:
    longest = max(end - start for start, end in queries)
    starts = torch.tensor([start for start, _ in queries])
    sizes = torch.tensor([end - start for start, end in queries])
    steps = torch.arange(longest)
    valid_SQ = steps < sizes[:, None]
    query_SQ = torch.where(valid_SQ, starts[:, None] + steps, 0)
    key_SK = query_SQ
    if not causal:
        first = torch.tensor([node.start for node in nodes])
        key_SK = first[:, None] + torch.arange(nodes[0].length)
    reach = max(
        max(trie.depth_N[start:end]) - trie.depth_N[node.start]
        for node, (start, end) in zip(nodes, queries, strict=True)
    )
    return Call(query_SQ.to(device), key_SK.to(device), valid_SQ.to(device), causal, reach)


class TrieAttention(torch.autograd.Function):
    """Softmax attention of every token to its ancestors and itself."""

    @staticmethod
    def forward(
        ctx: Any,
        q_HND: Tensor,
        k_HND: Tensor,
        v_HND: Tensor,
        layout: Layout,
        scale: float,
        window: int | None,
    ) -> Tensor:
        """Attend; queries, keys and values have equally many heads.

        Args:
            ctx: kept for the backward pass.
            q_HND: queries.
            k_HND: keys.
            v_HND: values.
            layout: of the trie.
            scale: what products are multiplied with.
            window: positions a token sees, itself counted; None for all.
        """
        out_HND = torch.empty_like(q_HND)
        lse_HN = q_HND.new_empty(q_HND.shape[:2], dtype=_precise(q_HND.dtype))
        for call in layout.calls:
            q, k, v = _at(q_HND, call.query_SQ), _at(k_HND, call.key_SK), _at(v_HND, call.key_SK)
            mask = _window_mask(call, layout, window, q)
            causal = call.causal and mask is None
            out, lse = forward_call(q, k, v, 0.0, causal, attn_mask=mask, scale=scale)
            if mask is not None:  # of a query that sees no key the kernel says 0, as if it saw one
                lse = lse.masked_fill(mask.isneginf().all(-1), -torch.inf)
            where = call.query_SQ[call.valid_SQ]
            new = out.transpose(0, 1)[:, call.valid_SQ]
            new_lse = lse.transpose(0, 1)[:, call.valid_SQ].to(lse_HN.dtype)
            if not call.causal:
                new, new_lse = _merged(out_HND[:, where], lse_HN[:, where], new, new_lse)
            out_HND[:, where] = new.to(out_HND.dtype)
            lse_HN[:, where] = new_lse
        ctx.save_for_backward(q_HND, k_HND, v_HND, out_HND, lse_HN)
        ctx.layout, ctx.scale, ctx.window = layout, scale, window
        return out_HND

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Gradients of queries, keys and values."""
        (grad_HND,) = grads
        q_HND, k_HND, v_HND, out_HND, lse_HN = ctx.saved_tensors
        dq, dk, dv = (torch.zeros_like(each) for each in (q_HND, k_HND, v_HND))
        for call in ctx.layout.calls:
            q, k, v = _at(q_HND, call.query_SQ), _at(k_HND, call.key_SK), _at(v_HND, call.key_SK)
            mask = _window_mask(call, ctx.layout, ctx.window, q)
            # Padded queries ask for nothing, so whatever they point at gets no gradient.
            grad = _at(grad_HND, call.query_SQ) * call.valid_SQ[:, None, :, None]
            lse = lse_HN[:, call.query_SQ].transpose(0, 1)
            parts = backward_call(
                grad, q, k, v, _at(out_HND, call.query_SQ), lse.to(torch.float32)
                if q.dtype != torch.float64 else lse, 0.0, call.causal and mask is None,
                attn_mask=mask, scale=ctx.scale,
            )  # fmt: skip
            for total, part, where in zip(
                (dq, dk, dv), parts, (call.query_SQ, call.key_SK, call.key_SK), strict=True
            ):
                total.index_add_(1, where.flatten(), part.transpose(0, 1).flatten(1, 2))
        return dq, dk, dv, None, None, None


def _at(x_HND: Tensor, where_SL: Tensor) -> Tensor:
    """Pieces, as the kernel takes them: S, H, L, D."""
    return x_HND[:, where_SL].transpose(0, 1)


def _precise(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def _merged(
    out: Tensor, lse: Tensor, new: Tensor, new_lse: Tensor
) -> tuple[Tensor, Tensor]:
    """Attention over two sets of keys, from that over each."""
    total = torch.logaddexp(lse, new_lse)
    share = (new_lse - total).exp()[..., None].to(out.dtype)
    return out * (1 - share) + new * share, total


def _window_mask(
    call: Call, layout: Layout, window: int | None, like: Tensor
) -> Tensor | None:
    """Which keys a window hides, if any."""
    if window is None or call.reach < window:
        return None
    gap = layout.depth_N[call.query_SQ][:, :, None] - layout.depth_N[call.key_SK][:, None, :]
    hidden = gap >= window
    if call.causal:
        hidden = hidden | (torch.arange(gap.shape[2], device=gap.device) > torch.arange(
            gap.shape[1], device=gap.device)[:, None])
    mask = torch.zeros(hidden.shape, dtype=like.dtype, device=like.device)
    return mask.masked_fill_(hidden, -torch.inf)[:, None]


def attend(
    module: nn.Module,
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
    if options.get("softcap") is not None or options.get("s_aux") is not None:
        raise ValueError(f"{NAME}: attention with soft caps or sinks is not computed here")
    groups = query.shape[1] // key.shape[1]
    k, v = (each[0].repeat_interleave(groups, 0) for each in (key, value))
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    out = TrieAttention.apply(query[0], k, v, layout, scale, sliding_window)
    return out.transpose(0, 1)[None], None  # pyright: ignore[reportOptionalMemberAccess]


AttentionInterface.register(NAME, attend)
AttentionMaskInterface.register(NAME, lambda *_, **__: None)

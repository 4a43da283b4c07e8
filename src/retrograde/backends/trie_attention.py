"""Attention on a trie of tokens: each token sees its ancestors and what precedes it in its node.

A node is causal within itself, and everything below it sees all of it; no mask is made and no
pair is computed that does not count. Partial results are put together by their logsumexp, and
so, backwards, is the gradient: what a flash kernel needs of the softmax is its logsumexp over
all keys, whichever of them it is given.

Shapes: H heads, N packed tokens, D of a head; in a call, S pieces of Q queries and K keys.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import BlockMask
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

from retrograde.backends.flex_route import SMALLEST_HEAD, block_mask, flex
from retrograde.backends.partial_attention import part, part_backward
from retrograde.data.trie import Trie

NAME = "retrograde_trie"
WASTE = 1.25
"""Pieces of unequal length share a call while padding makes it at most this much larger,"""
SLACK = 256
"""or adds at most so many queries, which cost less than a call of their own."""


class Rectangle(NamedTuple):
    """Tokens that look, and tokens that are all seen by them."""

    queries: tuple[int, int]
    """Where they begin, and behind their end."""
    keys: tuple[int, int]
    level: int
    """Rectangles of one level have no query in common."""
    causal: bool
    """Whether the two are the same tokens, which see what precedes them; else they see all."""


@dataclass(frozen=True)
class Call:
    """Rectangles that go through the kernel together."""

    query_SQ: Tensor
    """Where the queries lie; padding points at token 0."""
    key_SK: Tensor
    valid_SQ: Tensor
    """False at padding."""
    causal: bool
    reach: int
    """Largest distance between a query and a key of it, in positions."""


@dataclass(frozen=True)
class Layout:
    """Everything attention has to know."""

    calls: tuple[Call, ...]
    """Causal ones first: they see every query once."""
    query_depth_N: Tensor
    key_depths: Sequence[int]
    end_N: Tensor | None = None
    """Of each token of a trie: behind the last that sees it."""
    masks: dict[int | None, BlockMask] = field(default_factory=dict[int | None, BlockMask])
    """Made so far, by window."""

    def block_mask(self, window: int | None) -> BlockMask:
        """For a fused kernel.

        Raises:
            ValueError: this is not the layout of a whole trie.
        """
        if self.end_N is None:
            raise ValueError("a block mask is made for a trie whose tokens all look and are seen")
        if window not in self.masks:
            self.masks[window] = block_mask(self.end_N, self.query_depth_N, window)
        return self.masks[window]

    @cached_property
    def key_depth(self) -> Tensor:
        """Of every place that keys can lie at; only windows ask."""
        return torch.tensor(self.key_depths, device=self.query_depth_N.device)

    @classmethod
    def of(cls, trie: Trie, device: torch.device) -> "Layout":
        """Of a trie whose tokens all look and are seen."""
        rectangles = [
            Rectangle((n.start, n.end), (n.start, n.end), n.level, causal=True) for n in trie.nodes
        ]
        rectangles += [
            Rectangle((n.end, n.below), (n.start, n.end), n.level, causal=False)
            for n in trie.nodes
            if n.below > n.end
        ]
        ends = [node.below for node in trie.nodes for _ in range(node.length)]
        found = cls.planned(rectangles, trie.depth_N, trie.depth_N, device)
        return replace(found, end_N=torch.tensor(ends, device=device))

    @classmethod
    def planned(
        cls,
        rectangles: Sequence[Rectangle],
        query_depths: Sequence[int],
        key_depths: Sequence[int],
        device: torch.device,
    ) -> "Layout":
        """Put rectangles of like size into one call.

        Causal ones may be padded. Others share a call only with the same number of keys, so
        that no key is padding and no mask is needed.
        """
        alike: dict[tuple[int, int], list[Rectangle]] = defaultdict(list)
        for rectangle in rectangles:
            keys = rectangle.keys[1] - rectangle.keys[0]
            alike[(-1, 0) if rectangle.causal else (rectangle.level, keys)].append(rectangle)
        calls = [
            _call(part, query_depths, key_depths, device)
            for key in sorted(alike)
            for part in _of_like_length(alike[key])
        ]
        return cls(tuple(calls), torch.tensor(query_depths, device=device), key_depths)


def _of_like_length(rectangles: Sequence[Rectangle]) -> list[list[Rectangle]]:
    parts: list[list[Rectangle]] = []
    true = 0
    for rectangle in sorted(rectangles, key=_queries):
        size = _queries(rectangle)
        if parts and (len(parts[-1]) + 1) * size <= WASTE * (true + size) + SLACK:
            parts[-1].append(rectangle)
            true += size
        else:
            parts.append([rectangle])
            true = size
    return parts


def _queries(rectangle: Rectangle) -> int:
    return rectangle.queries[1] - rectangle.queries[0]


def _call(
    rectangles: Sequence[Rectangle],
    query_depths: Sequence[int],
    key_depths: Sequence[int],
    device: torch.device,
) -> Call:
    causal = rectangles[0].causal
    longest = max(map(_queries, rectangles))
    sizes = torch.tensor([_queries(r) for r in rectangles])
    valid_SQ = torch.arange(longest) < sizes[:, None]
    query_SQ = _places([r.queries[0] for r in rectangles], valid_SQ)
    shown = rectangles[0].keys[1] - rectangles[0].keys[0]
    seen_SK = valid_SQ if causal else torch.ones(len(rectangles), shown, dtype=torch.bool)
    key_SK = _places([r.keys[0] for r in rectangles], seen_SK)
    reach = max(
        max(query_depths[r.queries[0] : r.queries[1]]) - key_depths[r.keys[0]] for r in rectangles
    )
    return Call(query_SQ.to(device), key_SK.to(device), valid_SQ.to(device), causal, reach)


def _places(starts: Sequence[int], valid_SL: Tensor) -> Tensor:
    steps = torch.tensor(starts)[:, None] + torch.arange(valid_SL.shape[1])
    return torch.where(valid_SL, steps, 0)


def attended(
    q_HND: Tensor, k_HMD: Tensor, v_HMD: Tensor, layout: Layout, scale: float, window: int | None
) -> tuple[Tensor, Tensor]:
    """Attention of every query, and the logsumexp of its scores."""
    out_HND = torch.empty_like(q_HND)
    lse_HN = q_HND.new_empty(q_HND.shape[:2], dtype=_precise(q_HND.dtype))
    for call in layout.calls:
        q, k, v = _at(q_HND, call.query_SQ), _at(k_HMD, call.key_SK), _at(v_HMD, call.key_SK)
        mask = _window_mask(call, layout, window, q)
        causal = call.causal and mask is None
        out, lse = part(q, k, v, mask, causal=causal, scale=scale)
        where = call.query_SQ[call.valid_SQ]
        new = out.transpose(1, 2)[call.valid_SQ].transpose(0, 1)
        new_lse = lse.transpose(1, 2)[call.valid_SQ].T.to(lse_HN.dtype)
        if not call.causal:
            new, new_lse = _merged(out_HND[:, where], lse_HN[:, where], new, new_lse)
        out_HND[:, where] = new.to(out_HND.dtype)
        lse_HN[:, where] = new_lse
    return out_HND, lse_HN


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
        dq, dk, dv = (torch.zeros_like(each) for each in (q_HND, k_HND, v_HND))
        for call in how.layout.calls:
            q, k, v = _at(q_HND, call.query_SQ), _at(k_HND, call.key_SK), _at(v_HND, call.key_SK)
            mask = _window_mask(call, how.layout, how.window, q)
            # Padded queries ask for nothing, so whatever they point at gets no gradient.
            grad = _at(grad_HND, call.query_SQ) * call.valid_SQ[:, None, :, None]
            whole = _at(out_HND, call.query_SQ), lse_HN[:, call.query_SQ].transpose(0, 1)
            causal = call.causal and mask is None
            parts = part_backward(grad, (q, k, v), whole, mask, causal=causal, scale=how.scale)
            for total, own, where in zip(
                (dq, dk, dv), parts, (call.query_SQ, call.key_SK, call.key_SK), strict=True
            ):
                total.index_add_(1, where.flatten(), own.transpose(0, 1).flatten(1, 2))
        return dq, dk, dv, None


def _at(x_HND: Tensor, where_SL: Tensor) -> Tensor:
    """Pieces, as the kernel takes them: S, H, L, D."""
    return x_HND[:, where_SL].transpose(0, 1)


def _precise(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def _merged(out: Tensor, lse: Tensor, new: Tensor, new_lse: Tensor) -> tuple[Tensor, Tensor]:
    """Attention over two sets of keys, from that over each."""
    total = torch.logaddexp(lse, new_lse)
    share = (new_lse - total).exp()[..., None].to(out.dtype)
    return out * (1 - share) + new * share, total


def _window_mask(call: Call, layout: Layout, window: int | None, like: Tensor) -> Tensor | None:
    """Which keys a window hides, if any."""
    if window is None or call.reach < window:
        return None
    gap = (
        layout.query_depth_N[call.query_SQ][:, :, None] - layout.key_depth[call.key_SK][:, None, :]
    )
    hidden = gap >= window
    if call.causal:
        hidden = hidden | (
            torch.arange(gap.shape[2], device=gap.device)
            > torch.arange(gap.shape[1], device=gap.device)[:, None]
        )
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

"""Who attends to whom on a trie of tokens, laid out as few calls of an attention kernel.

Along the trie, a node is causal within itself and everything below it sees all of it: no pair is
computed that does not count. Side by side, each sequence has the keys of all of it, and those
queries that no sequence before it had: nothing has to be merged, which is cheaper for short ones.

Shapes: N packed tokens; in a call, S pieces of Q queries and K keys, T valid queries.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask

from retrograde.backends.flex_route import block_mask
from retrograde.data.trie import Ids, Node, Trie

WASTE = 1.25
"""Pieces of unequal length share a call while padding makes it at most this much larger,"""
SLACK = 256
"""or adds at most so many queries, which cost less than a call of their own."""
BLOCK = 32
"""Queries that the kernel takes at a time; to read a key costs it as much as half of them."""
CALL = 1 << 20
"""Products of two numbers, of a query and of a key, that cost as much as a further call."""

Piece = TypeVar("Piece")
Beside = tuple[Ids, int]
"""A path, and how many tokens at its end are on no path before it: these look here."""


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
    """Pieces that go through the kernel together."""

    query_SQ: Tensor
    """Where the queries lie; padding points at token 0."""
    key_SK: Tensor
    valid_SQ: Tensor
    """False at padding, and at tokens that look in another piece."""
    causal: bool
    reach: int
    """Largest distance between a query and a key of it, in positions."""
    hidden_SQK: Tensor | None = None
    """True where a key is padding or follows the query, if a causal call is not a square."""

    @cached_property
    def valid_at(self) -> Tensor:
        """Which queries are valid, of all pieces laid end to end."""
        return self.valid_SQ.flatten().nonzero()[:, 0]

    @cached_property
    def query_at(self) -> Tensor:
        """Where the valid queries lie."""
        return self.query_SQ.flatten()[self.valid_at]


@dataclass(frozen=True)
class Layout:
    """Everything attention has to know."""

    calls: tuple[Call, ...]
    """Causal ones first: they see every query once."""
    query_depth_N: Tensor
    key_depths: Sequence[int]
    nodes: Sequence[Node] = ()
    """Of a trie whose tokens all look and are seen."""
    masks: dict[int | None, BlockMask] = field(default_factory=dict[int | None, BlockMask])
    """Made so far, by window."""

    def block_mask(self, window: int | None) -> BlockMask:
        """For a fused kernel.

        Raises:
            ValueError: this is not the layout of a whole trie.
        """
        if not self.nodes:
            raise ValueError("a block mask is made for a trie whose tokens all look and are seen")
        if window not in self.masks:
            ends = [node.below for node in self.nodes for _ in range(node.length)]
            end_N = torch.tensor(ends, device=self.query_depth_N.device)
            self.masks[window] = block_mask(end_N, self.query_depth_N, window)
        return self.masks[window]

    @cached_property
    def key_depth(self) -> Tensor:
        """Of every place that keys can lie at; only windows ask."""
        return torch.tensor(self.key_depths, device=self.query_depth_N.device)

    @classmethod
    def of(cls, trie: Trie, device: torch.device, width: int) -> "Layout":
        """Of a trie whose tokens all look and are seen, in the way that costs less.

        Args:
            trie: what is laid out.
            device: where it is needed.
            width: of a query, all heads together.
        """
        along = _alike(_rectangles(trie))
        beside = _of_like_length(_own(trie.whole_paths), lambda piece: piece[1])
        shapes_along = [(len(part), _queries(part[-1]), _keys(part[-1])) for part in along]
        shapes_beside = [(len(part), *_shape(part)) for part in beside]
        if _cost(shapes_beside, width) <= _cost(shapes_along, width):
            calls = [_call_beside(part, device) for part in beside]
        else:
            calls = [_call(part, trie.depth_N, trie.depth_N, device) for part in along]
        depth_N = torch.tensor(trie.depth_N, device=device)
        return cls(tuple(calls), depth_N, trie.depth_N, trie.nodes)

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
        calls = [_call(part, query_depths, key_depths, device) for part in _alike(rectangles)]
        return cls(tuple(calls), torch.tensor(query_depths, device=device), key_depths)


def _rectangles(trie: Trie) -> list[Rectangle]:
    """Each node on itself, and all that is below a node on that node."""
    within = [
        Rectangle((n.start, n.end), (n.start, n.end), n.level, causal=True) for n in trie.nodes
    ]
    return within + [
        Rectangle((n.end, n.below), (n.start, n.end), n.level, causal=False)
        for n in trie.nodes
        if n.below > n.end
    ]


def _alike(rectangles: Sequence[Rectangle]) -> list[list[Rectangle]]:
    """Parts that share a call."""
    alike: dict[tuple[int, int], list[Rectangle]] = defaultdict(list)
    for rectangle in rectangles:
        kind = (-1, 0) if rectangle.causal else (rectangle.level, _keys(rectangle))
        alike[kind].append(rectangle)
    return [part for key in sorted(alike) for part in _of_like_length(alike[key], _queries)]


def _of_like_length(pieces: Sequence[Piece], length: Callable[[Piece], int]) -> list[list[Piece]]:
    """Parts that share a call, the longest piece of each last."""
    parts: list[list[Piece]] = []
    true = 0
    for piece in sorted(pieces, key=length):
        size = length(piece)
        if parts and (len(parts[-1]) + 1) * size <= WASTE * (true + size) + SLACK:
            parts[-1].append(piece)
            true += size
        else:
            parts.append([piece])
            true = size
    return parts


def _queries(rectangle: Rectangle) -> int:
    return rectangle.queries[1] - rectangle.queries[0]


def _keys(rectangle: Rectangle) -> int:
    return rectangle.keys[1] - rectangle.keys[0]


def _own(paths: Sequence[Ids]) -> list[Beside]:
    """In depth-first order, what is new on a path lies between the ends of the last and its own."""
    ends = [-1, *(path[-1] for path in paths)]
    return [(path, path[-1] - end) for path, end in zip(paths, ends, strict=False)]


def _shape(part: Sequence[Beside]) -> tuple[int, int]:
    """Queries and keys of each piece: a square, unless most tokens of all looked before."""
    keys, queries = max(len(path) for path, _ in part), part[-1][1]
    return (queries if 2 * queries <= keys else keys), keys


def _cost(shapes: Iterable[tuple[int, int, int]], width: int) -> int:
    """Of calls, by their numbers of pieces, and of each piece's queries and keys."""
    return sum(
        CALL + width * pieces * keys * (queries + -(-queries // BLOCK) * BLOCK // 2)
        for pieces, queries, keys in shapes
    )


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


def _call_beside(part: Sequence[Beside], device: torch.device) -> Call:
    queries, keys = _shape(part)
    begins = [0 if queries == keys else len(path) - own for path, own in part]
    query_SQ = _padded([path[at:] for (path, _), at in zip(part, begins, strict=True)], queries)
    key_SK = _padded([path for path, _ in part], keys)
    valid_SQ = query_SQ > torch.tensor([[path[-1] - own] for path, own in part])
    hidden_SQK = None
    if queries != keys:
        depth_SQ = torch.tensor(begins)[:, None] + torch.arange(queries)
        hidden_SQK = (torch.arange(keys) > depth_SQ[..., None]).to(device)
    query_SQ, key_SK = (each.clamp(min=0).to(device) for each in (query_SQ, key_SK))
    valid_SQ = valid_SQ.to(device)
    return Call(query_SQ, key_SK, valid_SQ, causal=True, reach=keys - 1, hidden_SQK=hidden_SQK)


def _padded(pieces: Sequence[Ids], length: int) -> Tensor:
    return torch.tensor([piece + (-1,) * (length - len(piece)) for piece in pieces])

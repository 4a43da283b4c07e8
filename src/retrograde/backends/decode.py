"""Sampling one token at a time behind contexts whose keys and values are shared.

What several answers see of a context is read once for all of them. An answer's own keys and
values lie in a rectangle that begins as long as an answer may get, so that nothing is copied
from step to step.

Shapes: B answers under way, H key heads, G queries a key head, D of a head. In a piece of
contexts: S pieces of like size, Q answers that see each, K tokens. W columns of contexts, t
tokens of an answer so far.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface

from retrograde.backends.kv_trie import Branch, KeyValueTrie
from retrograde.backends.trie_attention import check_plain

NAME = "retrograde_step"
WASTE = 1.5
"""Pieces of unequal size share a product while padding makes it at most this much larger,"""
SLACK = 1 << 13
"""or adds at most so many scores a head, which cost less than a product of their own."""


@dataclass(frozen=True)
class Piece:
    """Tokens that the same answers see."""

    rows: tuple[int, int]
    places: tuple[int, ...]
    """Where their keys and values lie in the pool."""
    depth: int
    """Position of the first."""
    level: int

    @property
    def size(self) -> int:
        """Scores it takes."""
        return (self.rows[1] - self.rows[0]) * len(self.places)


@dataclass(frozen=True)
class Product:
    """Pieces whose scores are taken together."""

    row_SQ: Tensor
    """Padding repeats the first row."""
    real_SQ: Tensor
    """False at padding."""
    place_SK: Tensor
    hidden_SK: Tensor | None
    """True at padding; None if there is none."""
    column: int
    """Where its scores begin among those of an answer."""
    is_all: bool
    """Whether it is one piece that every answer sees."""


def pieces(chains: Sequence[Sequence[Branch]]) -> list[Piece]:
    """What the answers see; chains are in such an order that what shares a branch is together.

    Branches that the same answers see are one piece.
    """
    found: list[Piece] = []
    waiting = [(0, len(chains), 0, 0)]
    while waiting:
        first, last, step, level = waiting.pop()
        places: list[int] = []
        depth = -1
        while all(len(chain) > step for chain in (chains[first], chains[last - 1])) and (
            chains[first][step] is chains[last - 1][step]
        ):
            branch = chains[first][step]
            depth = branch.depth if depth < 0 else depth
            places += range(branch.start, branch.start + len(branch.ids))
            step += 1
        if places:
            found.append(Piece((first, last), tuple(places), depth, level))
        row = first
        while row < last:
            end = row + 1
            if len(chains[row]) > step:
                branch = chains[row][step]
                while end < last and len(chains[end]) > step and chains[end][step] is branch:
                    end += 1
                waiting.append((row, end, step, level + 1))
            row = end
    return found


def in_order(chains: Sequence[Sequence[Branch]], store: KeyValueTrie) -> list[int]:
    """The answers, so that what shares a branch is together and shorter chains come first."""
    number = {branch: i for i, branch in enumerate(store.root.below(store.clock))}
    return sorted(range(len(chains)), key=lambda i: [number[branch] for branch in chains[i]])


@dataclass
class Step:
    """All that attention has to know while answers are written."""

    store: KeyValueTrie
    products: tuple[Product, ...]
    columns: int
    column_depth_BW: Tensor
    """Positions of what the columns hold; far in the future where a row has nothing."""
    row_B: Tensor
    length_B: Tensor
    """Tokens of each answer whose keys are written, that of now not counted."""
    position_B: Tensor
    tails: dict[int, tuple[Tensor, Tensor]]
    """Keys and values of answers, of each layer, B x H x T x D."""
    room: int
    """T: one more than an answer may take, since one that is over goes on unheard."""
    shown: dict[int, list[tuple[Tensor, Tensor]]] = field(default_factory=dict)
    """Keys and values of each product, of each layer; gathered once."""

    @property
    def longest(self) -> int:
        """Columns of answers that hold something, that of now counted."""
        return int(self.length_B.max()) + 1


def planned(
    chains: Sequence[Sequence[Branch]], device: torch.device
) -> tuple[tuple[Product, ...], int, Tensor]:
    """Products of contexts, the columns their scores take, and the positions of those columns."""
    levels: dict[int, list[Piece]] = defaultdict(list)
    for piece in pieces(chains):
        levels[piece.level].append(piece)
    products: list[Product] = []
    columns = 0
    depths: list[tuple[Piece, int]] = []
    for level in sorted(levels):
        for part in _alike(levels[level]):
            products.append(_product(part, columns, len(chains), device))
            depths += [(piece, columns) for piece in part]
        columns += max(len(piece.places) for piece in levels[level])
    depth_BW = torch.full((len(chains), columns), 1 << 40)
    for piece, column in depths:
        stop = column + len(piece.places)
        depth_BW[slice(*piece.rows), column:stop] = piece.depth + torch.arange(len(piece.places))
    return tuple(products), columns, depth_BW.to(device)


def _alike(found: Sequence[Piece]) -> list[list[Piece]]:
    parts: list[list[Piece]] = []
    true = rows = 0
    for piece in sorted(found, key=lambda p: (len(p.places), p.rows[1] - p.rows[0])):
        wide = max(rows, piece.rows[1] - piece.rows[0])
        padded = (len(parts[-1]) + 1) * wide * len(piece.places) if parts else 0
        if parts and padded <= WASTE * (true + piece.size) + SLACK:
            parts[-1].append(piece)
            rows, true = wide, true + piece.size
        else:
            parts.append([piece])
            rows, true = piece.rows[1] - piece.rows[0], piece.size
    return parts


def _product(part: Sequence[Piece], column: int, rows: int, device: torch.device) -> Product:
    wide = max(piece.rows[1] - piece.rows[0] for piece in part)
    long = max(len(piece.places) for piece in part)
    real = [[piece.rows[0] + i < piece.rows[1] for i in range(wide)] for piece in part]
    row = [[min(piece.rows[0] + i, piece.rows[1] - 1) for i in range(wide)] for piece in part]
    place = [[*piece.places, *[piece.places[0]] * (long - len(piece.places))] for piece in part]
    hidden = None
    if any(len(piece.places) < long for piece in part):
        sizes = torch.tensor([len(piece.places) for piece in part])
        hidden = (torch.arange(long) >= sizes[:, None]).to(device)
    return Product(
        torch.tensor(row, device=device),
        torch.tensor(real, device=device),
        torch.tensor(place, device=device),
        hidden,
        column,
        is_all=len(part) == 1 and wide == rows,
    )


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,  # noqa: ARG001 - the step says who sees what
    *,
    scaling: float | None = None,
    sliding_window: int | None = None,
    step: Step,
    **options: Any,
) -> tuple[Tensor, None]:
    """What transformers calls in each layer: one new token of each answer."""
    check_plain(options)
    layer: Any = module.layer_idx
    rows, heads, _, width = key.shape
    if layer not in step.tails:
        shape = (rows, heads, step.room, width)
        step.tails[layer] = key.new_zeros(shape), key.new_zeros(shape)
    keys, values = step.tails[layer]
    keys[step.row_B, :, step.length_B] = key[:, :, 0]
    values[step.row_B, :, step.length_B] = value[:, :, 0]
    if layer not in step.shown:
        pool = step.store.pools.get(layer)
        step.shown[layer] = [_gathered(pool, product) for product in step.products]
    scale = width**-0.5 if scaling is None else scaling
    q_BHGD = query.view(rows, heads, -1, width) * scale
    longest = step.longest
    score = q_BHGD.new_full((*q_BHGD.shape[:3], step.columns + longest), -torch.inf)
    score[..., step.columns :] = q_BHGD @ keys[:, :, :longest].transpose(-1, -2)
    score[..., step.columns :].masked_fill_(_unwritten(step, longest), -torch.inf)
    for product, (k, _) in zip(step.products, step.shown[layer], strict=True):
        _score(product, q_BHGD, k, score)
    if sliding_window is not None:
        score.masked_fill_(_out_of_window(step, longest, sliding_window), -torch.inf)
    share = score.float().softmax(-1).to(values.dtype)
    out_BHGD = share[..., step.columns :] @ values[:, :, :longest]
    for product, (_, v) in zip(step.products, step.shown[layer], strict=True):
        _read(product, share, v, out_BHGD)
    return out_BHGD.reshape(rows, 1, -1, width), None


def _gathered(pool: tuple[Tensor, Tensor] | None, product: Product) -> tuple[Tensor, Tensor]:
    if pool is None:
        raise AssertionError("a context is read before it is answered")
    keys, values = (each[:, product.place_SK].transpose(0, 1).contiguous() for each in pool)
    return keys, values


def _score(product: Product, q_BHGD: Tensor, k_SHKD: Tensor, score: Tensor) -> None:
    """Put the scores of a product where they belong."""
    columns = slice(product.column, product.column + k_SHKD.shape[2])
    groups = q_BHGD.shape[2]
    found = _together(product, q_BHGD) @ k_SHKD.transpose(-1, -2)
    if product.hidden_SK is not None:
        found = found.masked_fill(product.hidden_SK[:, None, None], -torch.inf)
    # S, H, Q x G, K as S, Q, H, G, K
    found = found.unflatten(2, (-1, groups)).transpose(1, 2)
    if product.is_all:
        score[..., columns] = found[0]
    else:
        score[product.row_SQ[product.real_SQ], :, :, columns] = found[product.real_SQ]


def _read(product: Product, share: Tensor, v_SHKD: Tensor, out_BHGD: Tensor) -> None:
    """Add what a product's values give."""
    columns = slice(product.column, product.column + v_SHKD.shape[2])
    groups = out_BHGD.shape[2]
    found = _together(product, share[..., columns]) @ v_SHKD
    found = found.unflatten(2, (-1, groups)).transpose(1, 2)
    if product.is_all:
        out_BHGD += found[0]
    else:
        out_BHGD.index_add_(0, product.row_SQ[product.real_SQ], found[product.real_SQ])


def _together(product: Product, x_BHGX: Tensor) -> Tensor:
    """Rows by the pieces that they see: S, H, Q x G, X."""
    x = x_BHGX[None] if product.is_all else x_BHGX[product.row_SQ]
    return x.transpose(1, 2).flatten(2, 3)


def _unwritten(step: Step, longest: int) -> Tensor:
    columns = torch.arange(longest, device=step.length_B.device)
    return (columns > step.length_B[:, None])[:, None, None]


def _out_of_window(step: Step, longest: int, window: int) -> Tensor:
    columns = torch.arange(longest, device=step.length_B.device)
    own = (step.position_B - step.length_B)[:, None] + columns
    depth = torch.cat([step.column_depth_BW, own], 1)
    return (step.position_B[:, None] - depth >= window)[:, None, None]


AttentionInterface.register(NAME, attend)
AttentionMaskInterface.register(NAME, lambda *_, **__: None)

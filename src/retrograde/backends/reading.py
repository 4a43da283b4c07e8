"""Running contexts into a store of keys and values; what it holds already is not run again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

from retrograde.backends.kv_trie import Branch, Ids, KeyValueTrie
from retrograde.backends.layout import Layout, Rectangle
from retrograde.backends.trie_attention import attended, attending, check_plain

NAME = "retrograde_read"


@dataclass(frozen=True)
class Reading:
    """New tokens, and where their keys and values go."""

    store: KeyValueTrie
    place_N: Tensor
    layout: Layout

    def attend(
        self,
        layer: int,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        scaling: float | None = None,
        sliding_window: int | None = None,
    ) -> Tensor:
        """New tokens of a layer are written down, then attend; 1 x heads x N x D."""
        keys, values = self.store.reserve(layer, key[0])
        keys[:, self.place_N], values[:, self.place_N] = key[0], value[0]
        groups = query.shape[1] // key.shape[1]
        k, v = (
            each.repeat_interleave(groups, 0) if groups > 1 else each for each in (keys, values)
        )
        scale = query.shape[-1] ** -0.5 if scaling is None else scaling
        out_HND, _ = attended(query[0], k, v, self.layout, scale, sliding_window)
        return out_HND.transpose(0, 1)[None]


Run = Callable[[Tensor, Tensor, Reading], None]
"""Runs token ids at positions, both 1 x N, and lets a reading attend."""


def running(model: PreTrainedModel) -> Run:
    """A transformers model, led to attend as it is told."""

    def run(ids: Tensor, positions: Tensor, reading: Reading) -> None:
        with attending(model, NAME):
            model.get_decoder()(
                input_ids=ids, position_ids=positions, use_cache=False, reading=reading
            )

    return run


def read(run: Run, store: KeyValueTrie, contexts: Sequence[Ids]) -> list[list[Branch]]:
    """Run what the store does not hold of some contexts; return the branches of each."""
    for context in contexts:
        store.chain(context)
    chains = [store.chain(context) for context in contexts]  # whole: a later one may cut another
    fresh = [branch for branch in store.root.below(store.clock) if not branch.is_read]
    fresh = [branch for branch in fresh if branch.ids]
    if fresh:
        device = store.device
        places = [branch.start + i for branch in fresh for i in range(len(branch.ids))]
        place_N = torch.tensor(places, device=device)
        reading = Reading(store, place_N, _layout(store, fresh, device))
        ids = [token for branch in fresh for token in branch.ids]
        run(torch.tensor([ids], device=device), reading.layout.query_depth_N[None], reading)
        store.measure()
        for branch in fresh:
            branch.is_read = True
    return chains


def _layout(store: KeyValueTrie, fresh: Sequence[Branch], device: torch.device) -> Layout:
    """Each new branch on itself, and all that is new below a branch on that branch."""
    begins: dict[Branch, int] = {}
    ends: dict[Branch, int] = {}
    # Of every branch with something new below it: that stretch of new tokens.
    rectangles: list[Rectangle] = []
    at = 0
    for branch in fresh:
        start, at = at, at + len(branch.ids)
        keys = (branch.start, branch.start + len(branch.ids))
        rectangles.append(Rectangle((start, at), keys, 0, causal=True))
        above = branch.parent
        while above is not None and above.parent is not None:
            begins.setdefault(above, start)
            ends[above] = at
            above = above.parent
    for branch, start in begins.items():
        above, level = branch.parent, 0
        while above is not None:
            above, level = above.parent, level + 1
        keys = (branch.start, branch.start + len(branch.ids))
        rectangles.append(Rectangle((start, ends[branch]), keys, level, causal=False))
    depths = [branch.depth + i for branch in fresh for i in range(len(branch.ids))]
    return Layout.planned(rectangles, depths, store.depths, device)


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,  # noqa: ARG001 - the layout is the mask
    *,
    scaling: float | None = None,
    sliding_window: int | None = None,
    reading: Reading,
    **options: Any,
) -> tuple[Tensor, None]:
    """What transformers calls in each layer: new tokens are written down, then attend."""
    check_plain(options)
    layer: Any = module.layer_idx
    return reading.attend(layer, query, key, value, scaling, sliding_window), None


AttentionInterface.register(NAME, attend)
AttentionMaskInterface.register(NAME, lambda *_, **__: None)

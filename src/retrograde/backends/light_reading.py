"""Running contexts into a store with few and large operations, for a light model.

What a store does not hold yet is a forest. It is run level by level: all roots at once, then all
that hangs on them, and so on, each level as a rectangle in which everything sees its ancestors
and what precedes it. A level that would take a pass for next to nothing is run with the one above
it, each of its stretches behind a copy of what it hangs on there.

Shapes: S stretches of tokens, Q tokens of the longest, A ancestors of the deepest, H key heads,
D of a head.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor
from torch.nn import functional

from retrograde.backends.kv_trie import Branch, Ids, KeyValueTrie
from retrograde.backends.lean import Lean

WASTE = 1.25
"""Stretches share a rectangle while padding makes it at most this much larger,"""
SLACK = 512
"""or adds at most so many tokens, which cost less than a pass of their own."""
AGAIN = 128
"""So many tokens may be run again to spare a pass."""


@dataclass(frozen=True)
class Stretch:
    """A branch that is to be run, and what it sees."""

    branch: Branch
    above: list[int]
    """Where its ancestors lie, but those that are run again with it."""
    again: Ids = ()

    @property
    def ids(self) -> Ids:
        """All tokens that are run."""
        return self.again + self.branch.ids

    def behind(self, other: "Stretch") -> "Stretch":
        """The same with all that another runs run again in front of it."""
        return Stretch(self.branch, other.above, other.ids + self.again)


class Level:
    """Stretches of tokens none of which waits for another."""

    def __init__(self, store: KeyValueTrie, stretches: Sequence[Stretch]) -> None:
        """Put them into a rectangle."""
        self.store = store
        device = store.device
        sizes = [len(each.ids) for each in stretches]
        self.above = max(len(each.above) for each in stretches)
        longest = max(sizes)
        depth = torch.tensor([len(each.above) for each in stretches], device=device)
        within_Q = torch.arange(longest, device=device)
        self.position_SQ = depth[:, None] + within_Q
        again = torch.tensor([len(each.again) for each in stretches], device=device)
        # What is run again lies in the pool already, or will.
        self.new_SQ = within_Q < torch.tensor(sizes, device=device)[:, None]
        self.new_SQ &= within_Q >= again[:, None]
        self.ids_SQ = torch.tensor(
            [[*each.ids, *[0] * (longest - len(each.ids))] for each in stretches], device=device
        )
        branches = [each.branch for each in stretches]
        self.place_N = torch.tensor(
            [p for b in branches for p in range(b.start, b.start + len(b.ids))], device=device
        )
        padded = [[0] * (self.above - len(each.above)) + each.above for each in stretches]
        self.above_SA = torch.tensor(padded, dtype=torch.long, device=device)
        # Each sees what it hangs on, and of itself what precedes: padding comes after all of it.
        missing_S = self.above - depth
        hidden_SA = torch.arange(self.above, device=device) < missing_S[:, None]
        later_QQ = within_Q > within_Q[:, None]
        hidden_SQK = torch.cat(
            [
                hidden_SA[:, None].expand(-1, longest, -1),
                later_QQ.expand(len(stretches), -1, -1),
            ],
            -1,
        )
        self.mask = torch.zeros(hidden_SQK.shape, device=device)
        self.mask = self.mask.masked_fill_(hidden_SQK, -torch.inf)[:, None]

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """What is new is written down, and sees what it hangs on."""
        pool = self.store.reserve(layer, key[0])
        seen: list[Tensor] = []
        for held, new in zip(pool, (key, value), strict=True):
            above = held[:, self.above_SA].transpose(0, 1)
            held[:, self.place_N] = new.transpose(1, 2)[self.new_SQ].transpose(0, 1)
            seen.append(torch.cat([above, new], 2))
        out = functional.scaled_dot_product_attention(
            query,
            seen[0],
            seen[1],
            attn_mask=self.mask,
            scale=1.0,
            enable_gqa=query.shape[1] != key.shape[1],
        )
        return out.transpose(1, 2)


def read_levels(
    lean: Lean, store: KeyValueTrie, contexts: Sequence[Ids], max_tokens: int
) -> list[list[int]]:
    """Run what the store does not hold of some contexts; return where each of them lies.

    No rectangle holds more than `max_tokens`, unless it is a single stretch.
    """
    for context in contexts:
        store.chain(context)
    chains = [store.chain(context) for context in contexts]  # whole: a later one may cut another
    levels: list[dict[Branch, Stretch]] = []
    places: list[list[int]] = []
    for chain in chains:
        place: list[int] = []
        level = 0
        for branch in chain:
            if not branch.is_read:
                if level == len(levels):
                    levels.append({})
                if branch not in levels[level]:
                    levels[level][branch] = Stretch(branch, place[:])
                level += 1
            place += range(branch.start, branch.start + len(branch.ids))
        places.append(place)
    for stretches in _flattened(levels):
        for part in _of_like_length(list(stretches.values()), max_tokens):
            level = Level(store, part)
            lean(level.ids_SQ, level.position_SQ, level.attend)
        for branch in stretches:
            branch.is_read = True
    store.measure()
    return places


def _flattened(levels: Sequence[dict[Branch, Stretch]]) -> list[dict[Branch, Stretch]]:
    """Fewer levels, where running a few tokens again spares one."""
    flat: list[dict[Branch, Stretch]] = []
    for level in levels:
        last = flat[-1] if flat else {}
        behind = {
            branch: each.behind(last[branch.parent])
            for branch, each in level.items()
            if branch.parent in last
        }
        again = sum(len(behind[b].again) - len(level[b].again) for b in behind)
        if flat and len(behind) == len(level) and again <= AGAIN:
            last |= behind
        else:
            flat.append(dict(level))
    return flat


def _of_like_length(stretches: list[Stretch], max_tokens: int) -> list[list[Stretch]]:
    stretches.sort(key=lambda each: len(each.ids))
    true = list(accumulate(len(each.ids) for each in stretches))
    parts: list[list[Stretch]] = []
    begun = 0
    for i, stretch in enumerate(stretches):
        real = true[i] - begun
        padded = (len(parts[-1]) + 1) * len(stretch.ids) if parts else 0
        if parts and padded <= min(max_tokens, WASTE * real + SLACK):
            parts[-1].append(stretch)
        else:
            parts.append([stretch])
            begun = true[i] - len(stretch.ids)
    return parts

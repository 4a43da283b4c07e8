"""Keys and values of distinct prefixes, kept from turn to turn until the weights change.

A radix tree over token ids says where the keys and values of a prefix lie; the tensors are one
pool for each layer. What was used longest ago is dropped when the pool is full.

Shapes: H key heads, M places of the pool, D of a head.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from retrograde.data.tree import shared_length

Ids = tuple[int, ...]
SMALLEST = 1024
"""Places of a new pool."""


class Branch:
    """A stretch of tokens behind its parent's."""

    __slots__ = ("children", "depth", "ids", "is_read", "parent", "start", "used")

    def __init__(self, ids: Ids, start: int, parent: "Branch | None", depth: int) -> None:
        """Hang a stretch of tokens under a parent, who has to be told."""
        self.ids = ids
        self.start = start
        """Where its keys and values begin in the pool."""
        self.parent = parent
        self.depth = depth
        """Tokens above it."""
        self.children: dict[int, Branch] = {}
        self.used = 0
        self.is_read = False
        """Whether its keys and values are there."""

    def below(self, since: int = 0) -> Iterator["Branch"]:
        """Itself and all under it that was used since then; depth first."""
        waiting = [self]
        while waiting:
            branch = waiting.pop()
            yield branch
            waiting += [child for child in branch.children.values() if child.used >= since]


class KeyValueTrie:
    """The tree and its pools; the pools are made when the first keys arrive."""

    def __init__(self, budget_bytes: int, device: torch.device | str = "cpu") -> None:
        """Hold nothing yet.

        Args:
            device: where pools are.
            budget_bytes: of keys and values, in all layers; what one call needs is held all
                the same.
        """
        self.budget_bytes = budget_bytes
        self.device = torch.device(device)
        self.pools: dict[int, tuple[Tensor, Tensor]] = {}
        self.dropped = 0
        """Tokens dropped for want of room, so far."""
        self.token_bytes = 0
        """Of one token in all layers; 0 until the first keys arrive."""
        self.root = Branch((), 0, None, 0)
        self.clear()

    def clear(self) -> None:
        """Forget everything; the pools are kept."""
        waiting = [self.root]
        while waiting:  # parents and children hold each other, which would keep the collector busy
            branch = waiting.pop()
            waiting += branch.children.values()
            branch.children, branch.parent = {}, None
        self.root = Branch((), 0, None, 0)
        self.depths: list[int] = []
        """Of each place of the pool that is taken: how many tokens precede what lies there."""
        self.clock = 0

    @property
    def filled(self) -> int:
        """Places of the pool that are taken."""
        return len(self.depths)

    def begin(self, contexts: Sequence[Ids]) -> None:
        """Open a call that will hold these contexts: make room for them."""
        self.clock += 1
        wanted = sum(map(len, contexts))
        if self.token_bytes and (self.filled + wanted) * self.token_bytes > self.budget_bytes:
            for context in contexts:
                for branch in self._known(context):
                    branch.used = self.clock
            self._make_room(self.budget_bytes // self.token_bytes - wanted)

    def chain(self, ids: Ids) -> list[Branch]:
        """The branches that spell these ids; what is missing is made, and not read yet."""
        branch, at = self.root, 0
        chain: list[Branch] = []
        while at < len(ids):
            child = branch.children.get(ids[at])
            if child is None:
                fresh = Branch(ids[at:], self.filled, branch, at)
                branch.children[ids[at]] = fresh
                fresh.used = self.clock
                self.depths += range(at, len(ids))
                return [*chain, fresh]
            shared = len(child.ids)
            if child.ids != ids[at : at + shared]:
                shared = shared_length(child.ids, ids[at:])
                child = self._cut(child, shared)
            child.used = self.clock
            chain.append(child)
            branch, at = child, at + shared
        return chain

    def reserve(self, layer: int, like: Tensor) -> tuple[Tensor, Tensor]:
        """The pool of a layer, large enough for all places that are taken."""
        if layer not in self.pools:
            shape = (like.shape[0], SMALLEST, like.shape[2])
            self.pools[layer] = (like.new_empty(shape), like.new_empty(shape))
        keys, values = self.pools[layer]
        if keys.shape[1] < self.filled:
            shape = (keys.shape[0], max(self.filled, 2 * keys.shape[1]), keys.shape[2])
            grown = []
            for old in (keys, values):
                new = old.new_empty(shape)
                new[:, : old.shape[1]] = old
                grown.append(new)
            self.pools[layer] = keys, values = grown[0], grown[1]
        return keys, values

    def measure(self) -> None:
        """See how large a token is, once every layer has a pool."""
        self.token_bytes = sum(
            2 * keys.shape[0] * keys.shape[2] * keys.element_size()
            for keys, _ in self.pools.values()
        )

    def _known(self, ids: Ids) -> Iterator[Branch]:
        branch, at = self.root, 0
        while at < len(ids) and (child := branch.children.get(ids[at])) is not None:
            yield child
            shared = shared_length(child.ids, ids[at:])
            if shared < len(child.ids):
                return
            branch, at = child, at + shared

    def _cut(self, branch: Branch, at: int) -> Branch:
        """Cut a branch in two; return the upper part."""
        parent = branch.parent
        if parent is None:
            raise AssertionError("the root has no ids to be cut between")
        upper = Branch(branch.ids[:at], branch.start, parent, branch.depth)
        upper.used, upper.is_read = branch.used, branch.is_read
        parent.children[branch.ids[0]] = upper
        upper.children[branch.ids[at]] = branch
        branch.ids, branch.parent = branch.ids[at:], upper
        branch.start, branch.depth = branch.start + at, branch.depth + at
        return upper

    def _make_room(self, most: int) -> None:
        """Drop leaves, those used longest ago first, and move the rest together."""
        kept = sum(len(branch.ids) for branch in self.root.below())
        leaves = [b for b in self.root.below() if not b.children and b.used < self.clock]
        leaves.sort(key=lambda branch: -branch.used)
        while leaves and kept > most:
            branch = leaves.pop()
            parent = branch.parent
            if parent is None:
                break
            del parent.children[branch.ids[0]]
            kept -= len(branch.ids)
            self.dropped += len(branch.ids)
            if not parent.children and parent.used < self.clock:
                leaves.append(parent)
                leaves.sort(key=lambda each: -each.used)
        self._compact()

    def _compact(self) -> None:
        places: list[int] = []
        for branch in self.root.below():
            start = len(places)
            places += range(branch.start, branch.start + len(branch.ids))
            branch.start = start
        self.depths = [self.depths[place] for place in places]
        for layer, (keys, values) in self.pools.items():
            where = torch.tensor(places, dtype=torch.long, device=keys.device)
            size = max(SMALLEST, self.filled)
            pair = []
            for old in (keys, values):
                new = old.new_empty(old.shape[0], size, old.shape[2])
                new[:, : self.filled] = old[:, where]
                pair.append(new)
            self.pools[layer] = pair[0], pair[1]

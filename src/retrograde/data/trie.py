"""Token sequences as a trie: each distinct prefix once, laid out depth first.

In this order everything below a node is one stretch of tokens, so attention to an ancestor is
a rectangle: the tokens below it against its own.

Shapes: N packed tokens, in depth-first order.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from retrograde.data.tree import shared_length

Ids = tuple[int, ...]


class Node(NamedTuple):
    """A stretch of tokens that no sequence leaves or enters but at its ends."""

    start: int
    """Of its own tokens."""
    end: int
    """Behind its own tokens, which is where what is below it begins."""
    below: int
    """Behind the last token below it."""
    level: int
    """Nodes above it."""

    @property
    def length(self) -> int:
        """Its own tokens."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Trie:
    """Distinct prefixes of some sequences."""

    ids_N: tuple[int, ...]
    depth_N: tuple[int, ...]
    """Position of a token in its sequence, from 0."""
    nodes: tuple[Node, ...]
    """In order of their tokens."""
    paths: tuple[tuple[int, ...], ...]
    """Of each sequence, in the order they were given: where its tokens lie."""

    @property
    def flat_tokens(self) -> int:
        """Tokens of all sequences, each by itself."""
        return sum(map(len, self.paths))

    @property
    def whole_paths(self) -> list[tuple[int, ...]]:
        """Of sequences that no other goes on from, each once, in order of their tokens."""
        last = {node.end - 1 for node in self.nodes if node.below == node.end}
        found = {path[-1]: path for path in self.paths if path[-1] in last}
        return [found[end] for end in sorted(found)]

    @classmethod
    def of(cls, sequences: Sequence[Ids]) -> "Trie":
        """Lay sequences out.

        Raises:
            ValueError: one is empty.
        """
        if not all(sequences):
            raise ValueError("a trie is made of sequences of at least one token, and one has none")
        order = sorted(range(len(sequences)), key=lambda i: sequences[i])
        ids: list[int] = []
        depths: list[int] = []
        parents: dict[int, int] = {}
        """Of each token that does not follow the one before it: which it does follow."""
        paths: list[tuple[int, ...]] = [()] * len(sequences)
        before: Ids = ()
        path: tuple[int, ...] = ()
        for i in order:
            sequence = sequences[i]
            shared = shared_length(before, sequence)
            first = len(ids)
            if shared < len(sequence):
                parents[first] = path[shared - 1] if shared else -1
            ids += sequence[shared:]
            depths += range(shared, len(sequence))
            path = path[:shared] + tuple(range(first, len(ids)))
            paths[i], before = path, sequence
        return cls(tuple(ids), tuple(depths), _nodes(parents, len(ids)), tuple(paths))


def _nodes(parents: dict[int, int], tokens: int) -> tuple[Node, ...]:
    """Cut behind every token that is followed by several, or by one that is not its neighbour."""
    branches = {parent + 1 for parent in parents.values() if parent >= 0}
    starts = sorted({*parents, *(cut for cut in branches if cut < tokens)})
    ends = [*starts[1:], tokens]
    level: list[int] = []
    for start in starts:
        parent = parents.get(start, start - 1)
        above = bisect_left(starts, parent + 1) - 1
        level.append(0 if parent < 0 else level[above] + 1)
    below = [tokens] * len(starts)
    waiting: list[int] = []
    for n, start in enumerate(starts):
        while waiting and level[waiting[-1]] >= level[n]:
            below[waiting.pop()] = start
        waiting.append(n)
    return tuple(map(Node, starts, ends, below, level))


def distinct_tokens(sequences: Sequence[Ids]) -> int:
    """Tokens of the trie of some sequences."""
    found, before = 0, ()
    for sequence in sorted(sequences):
        found += len(sequence) - shared_length(before, sequence)
        before = sequence
    return found


def packs(sequences: Sequence[Ids], max_tokens: int) -> list[list[int]]:
    """Indices in parts whose distinct tokens stay within a budget, what shares most together.

    Where a tree has to be cut, what both parts share is in both.

    Raises:
        ValueError: one sequence alone is longer than the budget.
    """
    longest = max(map(len, sequences), default=0)
    if longest > max_tokens:
        raise ValueError(
            f"max_tokens_per_microbatch is {max_tokens}, and one row has {longest} tokens: "
            f"raise it to at least that"
        )
    parts: list[list[int]] = []
    held, before = 0, ()
    for i in sorted(range(len(sequences)), key=lambda i: sequences[i]):
        new = len(sequences[i]) - shared_length(before, sequences[i])
        if parts and held + new <= max_tokens:
            parts[-1].append(i)
            held += new
        else:
            parts.append([i])
            held = len(sequences[i])
        before = sequences[i]
    return parts

"""Which siblings need no continuation of their own.

Siblings whose next context and whose environment's state are equal have the same law for
everything that follows. They share continuations; if all siblings lead to one state, there
is nothing to compare and nothing is continued.
"""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import NamedTuple, Protocol

from retrograde.data.tree import End
from retrograde.rollouts.plans import Fork


class Merge(NamedTuple):
    """What becomes of one of the siblings of a fork."""

    end: End | None
    """MERGED or SPARED; None for the one that is continued for its kind."""
    into: int | None
    """Number of the draft whose continuations stand for this one's."""
    continuations: int


class MergingWalk(Protocol):
    """What merging needs to know of a rollout."""

    fork: Fork
    fork_number: int


class MergingDraft(Protocol):
    """What merging needs to know of an answer."""

    @property
    def walk(self) -> MergingWalk:
        """The rollout it goes on."""
        ...

    @property
    def end(self) -> End | None:
        """Why nothing follows; None if something may."""
        ...

    @property
    def context(self) -> tuple[int, ...]:
        """What the policy was shown."""
        ...

    @property
    def state(self) -> Hashable | None:
        """What the environment says its state is; None if it does not."""
        ...


def merged(drafts: Sequence[MergingDraft]) -> dict[int, Merge]:
    """What becomes of each draft whose fork merges; drafts not named go on alone."""
    sets: defaultdict[int, list[int]] = defaultdict(list)
    for i, draft in enumerate(drafts):
        if draft.walk.fork.continuations > 0:
            sets[draft.walk.fork_number].append(i)
    result: dict[int, Merge] = {}
    for siblings in sets.values():
        result |= _of_siblings(drafts, siblings)
    return result


def _of_siblings(drafts: Sequence[MergingDraft], siblings: Sequence[int]) -> dict[int, Merge]:
    kinds: defaultdict[Hashable, list[int]] = defaultdict(list)
    valid = [i for i in siblings if drafts[i].end is not End.FAILED]
    for i in valid:
        if drafts[i].end is None:
            state = drafts[i].state
            # A state that cannot be compared is like no other.
            kinds[(drafts[i].context, state) if state is not None else i].append(i)
    result: dict[int, Merge] = {}
    for alike in kinds.values():
        first, *others = alike
        spared = len(alike) == len(valid) and len(alike) > 1
        times = drafts[first].walk.fork.continuations
        result[first] = Merge(End.SPARED if spared else None, None, times)
        result |= {i: Merge(End.MERGED, first, 0) for i in others}
    return result

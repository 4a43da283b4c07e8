"""Rollouts grown turn by turn, side by side, that branch while there are too few of them."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from retrograde.data.seeds import derived
from retrograde.data.tree import ROOT_PARENT, End, Group
from retrograde.rollouts.plans import ANY_MOMENT, NEW_TREE, Fork, Moment


@dataclass(frozen=True, slots=True)
class SegmentTree:
    """A turn a round: each rollout under way is continued `branching` times, up to `width` leaves.

    A task begins with a number of first turns drawn by chance. Where the width does not allow
    for all rollouts to branch, chance says which do. Once there are as many leaves as wanted
    they go on to their ends alone. If all have ended before that, the missing ones restart:
    each at a turn drawn by chance of a rollout drawn by chance. A failed rollout counts.

    Source:
        TreePO, arXiv:2508.17445, Algorithm 1.
    Differs from the source:
        A segment is a turn, not 512 tokens, and the environment's turn limit stands for the
        depth of 14. Restarted rollouts do not branch again: the width is full by then.
    """

    width: int = 16
    branching: int = 2
    first_least: int = 2
    first_most: int = 8

    def __post_init__(self) -> None:
        for name, lowest in {"width": 2, "branching": 1, "first_least": 1}.items():
            if getattr(self, name) < lowest:
                raise ValueError(f"{name}: at least {lowest} is needed, got {getattr(self, name)}")
        if self.first_most < self.first_least:
            raise ValueError(
                f"first_most: at least first_least={self.first_least} is needed, "
                f"got {self.first_most}"
            )

    @property
    def forks(self) -> bool:
        """Always."""
        return True

    def __call__(
        self, groups: Sequence[Group], rounds_done: int, moment: Moment = ANY_MOMENT
    ) -> list[list[Fork]]:
        """Round r grows turn r, then what is missing."""
        grown: list[list[Fork]] = []
        for g, group in enumerate(groups):
            chance = random.Random(derived(moment.seed, g))
            grown.append(self._more(group, chance) if rounds_done else self._first(chance))
        return grown

    def _first(self, chance: random.Random) -> list[Fork]:
        drawn = min(chance.randint(self.first_least, self.first_most), self.width)
        return [self._fork(NEW_TREE, ROOT_PARENT, 1, full=drawn == self.width)] * drawn

    def _more(self, group: Group, chance: random.Random) -> list[Fork]:
        leaves = [(t, leaf) for t, tree in enumerate(group.trees) for leaf in tree.leaves]
        live = [(t, leaf) for t, leaf in leaves if group.trees[t].turns[leaf].end is End.STOPPED]
        spare = self.width - len(leaves)
        if not live:
            drawn = Counter(_boundary(group, chance.choice(leaves), chance) for _ in range(spare))
            return [self._fork(*place, times, full=True) for place, times in sorted(drawn.items())]
        answers = dict.fromkeys(live, 1)
        for place in chance.sample(live, len(live)):
            more = min(self.branching - 1, spare)
            answers[place] += more
            spare -= more
        return [self._fork(*place, times, full=spare == 0) for place, times in answers.items()]

    def _fork(self, tree: int, parent: int, answers: int, *, full: bool) -> Fork:
        """What nothing will ever branch from again is neither kept nor stopped."""
        return Fork(tree, parent, answers, keep=not full, turns=None if full else 1)


def _boundary(group: Group, leaf: tuple[int, int], chance: random.Random) -> tuple[int, int]:
    """Where some turn of a rollout stood."""
    t, turn = leaf
    tree = group.trees[t]
    return t, tree.turns[chance.choice(tree.path(turn))].parent

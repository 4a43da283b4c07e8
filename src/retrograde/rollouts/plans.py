"""Where to grow rollouts next. Pure: a plan sees trees and answers with forks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from retrograde.data.tree import ROOT_PARENT, End, Group

NEW_TREE = -1


@dataclass(frozen=True, slots=True)
class Fork:
    """A point from which new answers are sampled, each then continued to the end."""

    tree: int
    """Index of the tree in its group; NEW_TREE plants one."""
    parent: int
    """The turn behind which the answers are sampled; ROOT_PARENT for first turns."""
    answers: int = 1
    continuations: int = 0
    """If above 0, answers that lead to the same state are continued together, this many
    times, and not at all if every answer leads there. 0 continues each answer once."""
    keep: bool = False
    """Keep the boundaries of what grows here, so that later rounds can fork there."""
    turns: int | None = None
    """Stop each new rollout after so many turns; None to go on to the end. A later round goes
    on from a stopped turn with a fork whose parent it is, once or several times."""

    def __post_init__(self) -> None:
        least = {"answers": 1, "continuations": 0} | ({} if self.turns is None else {"turns": 1})
        for name, lowest in least.items():
            if getattr(self, name) < lowest:
                got = getattr(self, name)
                raise ValueError(f"{name} of a fork: at least {lowest} is needed, got {got}")
        if self.turns is not None and self.continuations:
            raise ValueError("a fork that merges equal states cannot stop its rollouts on the way")


@dataclass(frozen=True, slots=True)
class Moment:
    """What a plan knows besides the groups."""

    prompts: int = 1
    """Tasks that the iteration began with."""
    seed: int = 0
    """Of this iteration and round; plans draw chance from nothing else."""
    turns_left: int | None = None
    """Turns that may still be generated in this run; None if that is not limited."""


ANY_MOMENT = Moment()


class Plan(Protocol):
    """Grows the groups of an iteration, round by round."""

    @property
    def forks(self) -> bool:
        """Whether it ever continues a rollout twice from one point."""
        ...

    def __call__(
        self, groups: Sequence[Group], rounds_done: int, moment: Moment = ANY_MOMENT
    ) -> list[list[Fork]]:
        """The forks of the next round, one list for each group; all empty when grown.

        Lists beyond those of the groups are for further tasks, which then join the iteration.
        """
        ...


@dataclass(frozen=True, slots=True)
class Chains:
    """Independent rollouts of each task; nothing branches."""

    rollouts: int = 8
    least: int = 1
    """Rollouts that the credit needs; 2 where they are compared with each other."""

    def __post_init__(self) -> None:
        if self.rollouts < self.least:
            why = "are compared with each other" if self.least > 1 else "a task is needed"
            raise ValueError(f"rollouts: at least {self.least} {why}, got {self.rollouts}")

    @property
    def forks(self) -> bool:
        """Never."""
        return False

    def __call__(
        self, groups: Sequence[Group], rounds_done: int, moment: Moment = ANY_MOMENT
    ) -> list[list[Fork]]:
        """All rollouts in the first round."""
        del moment
        plant = [Fork(NEW_TREE, ROOT_PARENT)] * self.rollouts
        return [plant if rounds_done == 0 else [] for _ in groups]


@dataclass(frozen=True, slots=True)
class ReverseTree:
    """Trunks, then fresh answers at their last turn, then at the one before, up to the first.

    Turn indices are absolute: with K the longest trunk of all groups, round r forks every
    trunk that has a turn K - r, in all groups at once, so that a phase is one policy.

    Source:
        RTPO, arXiv:2608.18682, Algorithm 1.
    """

    trunks: int = 1
    siblings: int = 2
    continuations: int = 0
    """See `Fork.continuations`; 0 is the paper's."""
    max_rollouts: int | None = None
    """Cap on what is grown for one task, trunks included: a boundary that would pass it is
    thinned, and left out if fewer than 2 siblings remain."""

    def __post_init__(self) -> None:
        if self.trunks < 1:
            raise ValueError(f"trunks: at least 1 a task is needed, got {self.trunks}")
        if self.siblings < 2:  # noqa: PLR2004
            raise ValueError(
                f"siblings: at least 2 are needed, since a single one is its own mean and its "
                f"advantage always 0; got {self.siblings}"
            )
        if self.continuations < 0:
            raise ValueError(f"continuations: at least 0 is needed, got {self.continuations}")
        if self.max_rollouts is not None and self.max_rollouts < self.trunks:
            raise ValueError(
                f"max_rollouts: at least the {self.trunks} trunks are needed, "
                f"got {self.max_rollouts}"
            )

    @property
    def forks(self) -> bool:
        """Always."""
        return True

    def __call__(
        self, groups: Sequence[Group], rounds_done: int, moment: Moment = ANY_MOMENT
    ) -> list[list[Fork]]:
        """Round 0 plants trunks; round r forks them all at turn K - r."""
        del moment
        if rounds_done == 0:
            return [[Fork(NEW_TREE, ROOT_PARENT, keep=True)] * self.trunks for _ in groups]
        turn = longest_trunk(groups) - rounds_done
        return [self._at(group, turn) if turn >= 0 else [] for group in groups]

    def _at(self, group: Group, turn: int) -> list[Fork]:
        each = max(1, self.continuations)
        cap = self.max_rollouts
        left = None if cap is None else cap - rollouts_grown(group)
        forks: list[Fork] = []
        for i, tree in enumerate(group.trees):
            if turn >= len(tree.trunk):
                continue
            answers = self.siblings if left is None else min(self.siblings, left // each)
            if answers < 2:  # noqa: PLR2004
                break
            parent = tree.turns[tree.trunk[turn]].parent
            forks.append(Fork(i, parent, answers, self.continuations))
            left = None if left is None else left - answers * each
        return forks


def longest_trunk(groups: Sequence[Group]) -> int:
    """Turns of the longest first attempt of all groups: K."""
    return max((len(tree.trunk) for group in groups for tree in group.trees), default=0)


def rollouts_grown(group: Group) -> int:
    """Answers of a group that were carried to an end of their own."""
    shared = {End.MERGED, End.SPARED}
    return sum(tree.turns[leaf].end not in shared for tree in group.trees for leaf in tree.leaves)

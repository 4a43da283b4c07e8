"""Attempts, and second ones where a task is neither easy nor hopeless."""

from collections.abc import Sequence
from dataclasses import dataclass

from retrograde.data.tree import ROOT_PARENT, End, Group
from retrograde.rollouts.plans import ANY_MOMENT, NEW_TREE, Fork, Moment


@dataclass(frozen=True, slots=True)
class AdaptiveTurns:
    """One turn for each rollout; where enough failed, and not too many, those go on.

    What decides is how many rollouts of the task failed their first turn, and nothing of other
    tasks or iterations. Rollouts that succeeded are not gone on with.

    Source:
        LEAP, arXiv:2608.01804: difficulty-conditioned pruning.
    Differs from the source:
        The bounds are not stated. Turns that broke are no failures of the policy.
    """

    rollouts: int = 8
    turns: int = 3
    """Most turns of a rollout."""
    least_failing: int = 4
    """With fewer failures in the first turn a task is easy: one turn is enough."""
    most_failing: int = 7
    """With more it is hopeless, and given up for now."""

    def __post_init__(self) -> None:
        if self.rollouts < 2:  # noqa: PLR2004
            raise ValueError(
                f"rollouts: at least 2 are compared with each other, got {self.rollouts}"
            )
        if self.turns < 1:
            raise ValueError(f"turns: at least 1 is needed, got {self.turns}")
        if not 0 <= self.least_failing <= self.most_failing:
            raise ValueError(
                f"least_failing, most_failing: numbers from 0 on that do not fall are needed, "
                f"got {self.least_failing} and {self.most_failing}"
            )

    @property
    def forks(self) -> bool:
        """Never: a rollout that was stopped goes on, once."""
        return False

    def __call__(
        self, groups: Sequence[Group], rounds_done: int, moment: Moment = ANY_MOMENT
    ) -> list[list[Fork]]:
        """One turn a round."""
        del moment
        if rounds_done == 0:
            return [[Fork(NEW_TREE, ROOT_PARENT, turns=1)] * self.rollouts for _ in groups]
        if rounds_done >= self.turns:
            return [[] for _ in groups]
        return [unsolved(group) if self._goes_on(group) else [] for group in groups]

    def _goes_on(self, group: Group) -> bool:
        first = [tree.turns[0] for tree in group.trees]
        failing = sum(turn.score != 1 and turn.end is not End.FAILED for turn in first)
        return self.least_failing <= failing <= self.most_failing


def unsolved(group: Group) -> list[Fork]:
    """A turn more for each stopped rollout whose last try was not right."""
    return [
        Fork(t, leaf, turns=1)
        for t, tree in enumerate(group.trees)
        for leaf in tree.leaves
        if tree.turns[leaf].end is End.STOPPED and tree.turns[leaf].score != 1
    ]

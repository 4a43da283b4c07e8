"""Rollouts of further tasks, until enough tasks have rollouts that differ."""

from collections.abc import Sequence
from dataclasses import dataclass

from retrograde.credit.standing import differs
from retrograde.data.tree import ROOT_PARENT, Group
from retrograde.rollouts.plans import ANY_MOMENT, NEW_TREE, Fork, Moment


@dataclass(frozen=True, slots=True)
class Resample:
    """Independent rollouts; while too few groups differ, as many tasks again, round by round.

    Source:
        DAPO, arXiv:2503.14476, section 3.2; verl's filter_groups.
    Differs from the source:
        verl cuts the informative groups to its batch size; here all of them train. With
        `max_batches` used up verl gives up; here the update takes the groups there are.
    """

    rollouts: int = 8
    max_batches: int = 10
    """Most tasks of an iteration, as a multiple of those it began with (max_num_gen_batches)."""

    def __post_init__(self) -> None:
        if self.rollouts < 2:  # noqa: PLR2004
            raise ValueError(
                f"rollouts: at least 2 are compared with each other, got {self.rollouts}"
            )
        if self.max_batches < 1:
            raise ValueError(f"max_batches: at least 1 is needed, got {self.max_batches}")

    @property
    def forks(self) -> bool:
        """Never."""
        return False

    def __call__(
        self, groups: Sequence[Group], rounds_done: int, moment: Moment = ANY_MOMENT
    ) -> list[list[Fork]]:
        """All rollouts of the tasks at hand, or of as many further ones."""
        plant = [Fork(NEW_TREE, ROOT_PARENT)] * self.rollouts
        if rounds_done == 0:
            return [plant for _ in groups]
        nothing: list[list[Fork]] = [[] for _ in groups]
        enough = sum(map(differs, groups)) >= moment.prompts
        most = self.max_batches * moment.prompts
        if enough or len(groups) >= most or moment.turns_left == 0:
            return nothing
        return nothing + [plant] * moment.prompts

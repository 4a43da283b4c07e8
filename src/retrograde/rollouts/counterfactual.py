"""Rollouts, then other answers to the turns that surprised the policy most."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from retrograde.data.tree import ROOT_PARENT, End, Group
from retrograde.rollouts.plans import ANY_MOMENT, NEW_TREE, Fork, Moment


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """Independent rollouts; then, behind the same pasts, `alternatives` of `selected` turns.

    Of a group, the turns whose tokens have the greatest mean surprise are selected; turns of
    failed rollouts are not. Alternatives are sampled, take one turn, and are not gone on with.

    Source:
        TCPO, arXiv:2608.01667: selective fixed-history counterfactuals.
    Differs from the source:
        Surprise is per token, and `selected` is per group; neither is stated.
    """

    rollouts: int = 8
    selected: int = 5
    alternatives: int = 4

    def __post_init__(self) -> None:
        if self.rollouts < 2:  # noqa: PLR2004
            raise ValueError(
                f"rollouts: at least 2 are compared with each other, got {self.rollouts}"
            )
        for name in ("selected", "alternatives"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: at least 0 is needed, got {getattr(self, name)}")

    @property
    def forks(self) -> bool:
        """If there are alternatives: behind a turn's past, besides the turn itself."""
        return self.selected > 0 and self.alternatives > 0

    def __call__(
        self, groups: Sequence[Group], rounds_done: int, moment: Moment = ANY_MOMENT
    ) -> list[list[Fork]]:
        """Rollouts in round 0, alternatives in round 1."""
        del moment
        if rounds_done == 0:
            return [[Fork(NEW_TREE, ROOT_PARENT, keep=self.forks)] * self.rollouts for _ in groups]
        if rounds_done > 1 or not self.forks:
            return [[] for _ in groups]
        return [
            [
                Fork(t, group.trees[t].turns[turn].parent, self.alternatives, turns=1)
                for t, turn in most_surprising(group, self.selected)
            ]
            for group in groups
        ]


def most_surprising(group: Group, number: int) -> list[tuple[int, int]]:
    """Tree and turn of the answers that were least likely a token, the least likely first."""
    surprise = {
        (t, turn): -fmean(tree.turns[turn].logprobs)
        for t, tree in enumerate(group.trees)
        for leaf, turn in tree.visits
        if tree.turns[leaf].end is not End.FAILED
    }
    return sorted(surprise, key=lambda place: (-surprise[place], place))[:number]

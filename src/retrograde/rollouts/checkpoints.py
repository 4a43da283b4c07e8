"""Rollouts that stop every few turns, where scores decide which go on, and how often."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from retrograde.data.seeds import derived
from retrograde.data.tree import ROOT_PARENT, End, Group, Tree
from retrograde.rollouts.plans import ANY_MOMENT, NEW_TREE, Fork, Moment

Place = tuple[int, int]
"""Tree and leaf."""
CROWD = 3
"""Branches among which one can lie behind the others: of two, each is as far from the median."""


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """Prune what lags or loops, multiply what leads, let all else go on.

    A branch is pruned if its score is below the median of the active ones by more than the
    margin, if there are at least 3, or if its last actions are all the same. The best that
    remain are replaced by several children each; among equal scores chance decides. What is
    pruned stays a leaf with what it earned.

    Source:
        PATR, arXiv:2607.15610.
    Differs from the source:
        With a cap on turns, branches whose next stretch would pass it stop, the worst first;
        children beyond the first are left out before that. Stated there as a turn cap only.
    """

    branches: int = 4
    every: int = 2
    """Turns between checkpoints."""
    expand: int = 2
    children: int = 2
    margin: float = 0.5
    repeats: int = 4
    max_turns: int | None = 64

    def __post_init__(self) -> None:
        least = {"branches": 2, "every": 1, "expand": 0, "children": 2, "repeats": 2}
        for name, lowest in least.items():
            if getattr(self, name) < lowest:
                raise ValueError(f"{name}: at least {lowest} is needed, got {getattr(self, name)}")
        if not self.margin >= 0:
            raise ValueError(f"margin: at least 0 is needed, got {self.margin}")
        if self.max_turns is not None and self.max_turns < self.branches * self.every:
            raise ValueError(
                f"max_turns: the first stretch takes {self.branches} branches times "
                f"{self.every} turns, got {self.max_turns}"
            )

    @property
    def forks(self) -> bool:
        """Unless nothing is expanded."""
        return self.expand > 0

    def __call__(
        self, groups: Sequence[Group], rounds_done: int, moment: Moment = ANY_MOMENT
    ) -> list[list[Fork]]:
        """Round 0 plants the branches; each later round begins at a checkpoint."""
        if rounds_done == 0:
            plant = Fork(NEW_TREE, ROOT_PARENT, turns=self.every)
            return [[plant] * self.branches for _ in groups]
        return [
            self._onwards(group, rounds_done, random.Random(derived(moment.seed, "ties", g)))
            for g, group in enumerate(groups)
        ]

    def _onwards(self, group: Group, rounds_done: int, chance: random.Random) -> list[Fork]:
        score = _active(group, rounds_done - 1)
        if not score:
            return []
        least = median(score.values()) - self.margin if len(score) >= CROWD else 0.0
        survivors = [
            (t, leaf)
            for (t, leaf), now in score.items()
            if now >= least and not loops(group.trees[t], leaf, self.repeats)
        ]
        tie = {place: chance.random() for place in survivors}
        ranked = sorted(survivors, key=lambda place: (-score[place], tie[place]))
        answers = dict.fromkeys(ranked[: self._stretches(group, len(ranked))], 1)
        spare = self._stretches(group, len(ranked) * self.children) - len(answers)
        for place in ranked[: self.expand]:
            more = min(self.children - 1, spare)
            if place in answers and more > 0:
                answers[place] += more
                spare -= more
        return [
            Fork(t, leaf, answers[t, leaf], turns=self.every)
            for t, leaf in survivors
            if (t, leaf) in answers
        ]

    def _stretches(self, group: Group, wanted: int) -> int:
        """How many stretches of turns the cap leaves room for, of those wanted."""
        if self.max_turns is None:
            return wanted
        grown = sum(len(tree.turns) for tree in group.trees)
        return min(wanted, (self.max_turns - grown) // self.every)


def loops(tree: Tree, leaf: int, repeats: int) -> bool:
    """Whether the last so many actions up to a leaf are the same, token for token."""
    last = [tree.turns[i].action for i in tree.path(leaf)[-repeats:]]
    return len(last) == repeats and len(set(last)) == 1


def _active(group: Group, grown_in: int) -> Mapping[Place, float]:
    """Scores of the leaves that wait since a round; those of earlier rounds were pruned."""
    found: dict[Place, float] = {}
    for t, tree in enumerate(group.trees):
        for leaf in tree.leaves:
            turn = tree.turns[leaf]
            if turn.end is End.STOPPED and turn.grown_in == grown_in:
                if turn.score is None:
                    raise ValueError(
                        f"task {group.task}: checkpoints need a score after every action, "
                        f"and turn {leaf} of tree {t} has none"
                    )
                found[t, leaf] = turn.score
    return found

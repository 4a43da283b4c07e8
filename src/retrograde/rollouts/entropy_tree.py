"""Chains, then fresh tries at the turns that were answered with the least certainty."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from retrograde.data.seeds import derived
from retrograde.data.tree import ROOT_PARENT, Group
from retrograde.rollouts.plans import ANY_MOMENT, NEW_TREE, Fork, Moment

Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class EntropyTree:
    """M chains of each task; then, L times, K turns are answered anew from where they stood.

    A turn's score is its mean negative log-probability (`Turn.nll`), less a penalty for each
    answer that its parent has. All chains of a task hang under one root, so K counts for the
    task, and a first turn's siblings are the first turns of all its chains. Leaves are never
    chosen. If there are fewer than K candidates, the top ones are chosen again; if there are
    none, the root is. A task ends up with M + L K leaves.

    Source:
        AT2PO, arXiv:2601.04767, Algorithm 1; `apart` and `answers` are EPTree's, TreeRL,
        arXiv:2506.11902, section 3.1.
    Differs from the source:
        EPTree forks inside an answer, at a token; here forks stand between turns.
    """

    chains: int = 4
    branches: int = 2
    """Turns chosen in each expansion."""
    expansions: int = 2
    answers: int = 1
    """Fresh answers for each turn chosen."""
    penalty: float = 0.05
    scoring: Literal["paper", "code"] = "paper"
    """The code counts one answer less, which ranks turns alike, and lets the root compete as
    if it were a turn of no uncertainty: a first turn is then answered anew."""
    expansion: Literal["entropy", "random"] = "entropy"
    """Choose by score, or by chance among the same candidates."""
    apart: bool = False
    """Choose K turns of each chain's tree, not of all of them together."""

    def __post_init__(self) -> None:
        least = {"chains": 1, "branches": 1, "expansions": 0, "answers": 1}
        for name, lowest in least.items():
            if getattr(self, name) < lowest:
                raise ValueError(f"{name}: at least {lowest} is needed, got {getattr(self, name)}")
        if self.chains + self.expansions < 2:  # noqa: PLR2004
            raise ValueError("chains: at least 2 are compared if nothing is expanded, got 1")
        if not (math.isfinite(self.penalty) and self.penalty >= 0):
            raise ValueError(f"penalty: a number of at least 0 is needed, got {self.penalty}")

    @property
    def forks(self) -> bool:
        """Unless nothing is expanded."""
        return self.expansions > 0

    def __call__(
        self, groups: Sequence[Group], rounds_done: int, moment: Moment = ANY_MOMENT
    ) -> list[list[Fork]]:
        """Round 0 plants the chains; each round after it is an expansion."""
        if rounds_done > self.expansions:
            return [[] for _ in groups]
        keep = rounds_done < self.expansions
        if rounds_done == 0:
            return [[Fork(NEW_TREE, ROOT_PARENT, keep=keep)] * self.chains for _ in groups]
        return [
            [
                Fork(tree, parent, self.answers, keep=keep)
                for trees in self._scopes(group)
                for tree, parent in self._chosen(group, trees, derived(moment.seed, g, *trees))
            ]
            for g, group in enumerate(groups)
        ]

    def _scopes(self, group: Group) -> list[list[int]]:
        """The trees that compete with each other."""
        every = list(range(len(group.trees)))
        return [[tree] for tree in every] if self.apart else [every]

    def _chosen(self, group: Group, trees: Sequence[int], seed: int) -> list[Place]:
        """Where the chosen turns stood: K places behind which to answer."""
        first = sum(turn.parent == ROOT_PARENT for t in trees for turn in group.trees[t].turns)
        scored: list[tuple[float, Place]] = []
        for t in trees:
            tree = group.trees[t]
            for turn, node in enumerate(tree.turns):
                if tree.children[turn]:
                    root = node.parent == ROOT_PARENT
                    siblings = first if root else len(tree.children[node.parent])
                    scored.append((node.nll - self._crowding(siblings), (t, node.parent)))
        if self.scoring == "code" or not scored:
            scored.append((-self._crowding(first), (trees[0], ROOT_PARENT)))
        if self.expansion == "random":
            random.Random(seed).shuffle(scored)
        else:
            scored.sort(key=lambda found: -found[0])  # stable: the elder first among equals
        return [scored[i % len(scored)][1] for i in range(self.branches)]

    def _crowding(self, siblings: int) -> float:
        return self.penalty * (siblings if self.scoring == "paper" else siblings - 1)

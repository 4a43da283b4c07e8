"""Chains, then fresh continuations from nodes drawn by chance."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from retrograde.data.seeds import derived
from retrograde.data.tree import ROOT_PARENT, Group
from retrograde.rollouts.plans import ANY_MOMENT, NEW_TREE, Fork, Moment


@dataclass(frozen=True, slots=True)
class ChanceTree:
    """M chains of each task, a tree each; then, L times, N nodes of each tree are continued.

    Nodes are drawn with replacement among the root of the tree and its turns that are no
    leaves; what follows a node is sampled anew, to the end. A tree gets L N + 1 leaves.

    Source:
        Tree-GRPO, arXiv:2509.21240, section 3.2.
    Differs from the source:
        None known.
    """

    trees: int = 2
    nodes: int = 2
    iterations: int = 1

    def __post_init__(self) -> None:
        for name, lowest in {"trees": 1, "nodes": 1, "iterations": 0}.items():
            if getattr(self, name) < lowest:
                raise ValueError(f"{name}: at least {lowest} is needed, got {getattr(self, name)}")
        if self.trees + self.iterations < 2:  # noqa: PLR2004
            raise ValueError("trees: at least 2 are compared if nothing is continued, got 1")

    @property
    def forks(self) -> bool:
        """Unless nothing is continued."""
        return self.iterations > 0

    def __call__(
        self, groups: Sequence[Group], rounds_done: int, moment: Moment = ANY_MOMENT
    ) -> list[list[Fork]]:
        """Round 0 plants the trees; each round after it is an iteration."""
        if rounds_done > self.iterations:
            return [[] for _ in groups]
        keep = rounds_done < self.iterations
        if rounds_done == 0:
            return [[Fork(NEW_TREE, ROOT_PARENT, keep=keep)] * self.trees for _ in groups]
        grown: list[list[Fork]] = []
        for g, group in enumerate(groups):
            forks: list[Fork] = []
            for t, tree in enumerate(group.trees):
                inner = [turn for turn, children in enumerate(tree.children) if children]
                chance = random.Random(derived(moment.seed, g, t))
                drawn = Counter(chance.choices([ROOT_PARENT, *inner], k=self.nodes))
                forks += [Fork(t, node, times, keep=keep) for node, times in sorted(drawn.items())]
            grown.append(forks)
        return grown

"""Branching where the policy hesitates behind what a tool has told it.

Rollouts advance one turn a round. The entropy of a turn behind a tool result is compared with that
of the first turn of its rollout, and where a rule says so, one more answer is sampled to what
that turn answered: a sibling, which then goes on as a rollout of its own.
"""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from retrograde.data.seeds import derived
from retrograde.data.tree import ROOT_PARENT, End, Group, Tree, Turn
from retrograde.rollouts.plans import ANY_MOMENT, NEW_TREE, Fork, Moment

Asked = Callable[[float], bool]
"""Whether to branch, by how much more entropy there is than in the first turn."""


@dataclass(frozen=True, slots=True)
class Probe:
    """How entropy is measured: summed over the first tokens of a turn, in units of `scale` nats.

    A sum, as the source has it: an answer of fewer tokens than are probed has less of it.
    """

    tokens: int = 20
    scale: float = 5.0
    """Nats that count as 1; log |V| in the source."""

    def __post_init__(self) -> None:
        if self.tokens < 1:
            raise ValueError(f"probe: at least 1 token is needed, got {self.tokens}")
        if not (math.isfinite(self.scale) and self.scale > 0):
            raise ValueError(f"entropy_scale: a number above 0 is needed, got {self.scale}")

    def __call__(self, turn: Turn) -> float:
        """The entropy of a turn.

        Raises:
            ValueError: the policy does not tell entropies.
        """
        if turn.action and not turn.entropies:
            raise ValueError("branching on entropy needs a policy that tells entropies: got none")
        return sum(turn.entropies[: self.tokens]) / self.scale

    def rise(self, tree: Tree, turn: int) -> float:
        """By how much a turn has more entropy than the first turn of its rollout."""
        return self(tree.turns[turn]) - self(tree.turns[tree.path(turn)[0]])


@dataclass(frozen=True, slots=True)
class ToolEntropy:
    """A fixed number of chains, the rest of the budget for branches.

    Source:
        ARPO, arXiv:2507.19849, Algorithm 1: branch if alpha + beta dH > tau. `branching="code"`
        branches if clip(U - beta dH, 0, 1) <= tau with U uniform, which for small dH tosses a coin.
    Differs from the source:
        The full distribution's entropy stands for that of its ten likeliest tokens. A turn that
        ended its rollout can be branched, too. Chains that make up for branches that were not
        asked for grow to their end in one round.
    """

    total: int = 8
    initial: int = 4
    branching: Literal["paper", "code"] = "paper"
    alpha: float = 0.5
    beta: float = 0.2
    tau: float = 0.5
    probe: Probe = Probe()

    def __post_init__(self) -> None:
        _check_budget(self.initial, self.total)

    @property
    def forks(self) -> bool:
        """Unless all of the budget is for chains."""
        return self.total > self.initial

    def __call__(
        self, groups: Sequence[Group], rounds_done: int, moment: Moment = ANY_MOMENT
    ) -> list[list[Fork]]:
        """Round 0 plants chains; each later round takes all that go on one turn further."""
        if rounds_done == 0:
            return [_chains(self.initial) for _ in groups]
        return [
            _advanced(group, rounds_done, self.total, self.probe, self._asked(moment.seed, g))
            for g, group in enumerate(groups)
        ]

    def _asked(self, seed: int, g: int) -> Asked:
        if self.branching == "paper":
            return lambda rise: self.alpha + self.beta * rise > self.tau
        chance = random.Random(derived(seed, "branch", g))
        return lambda rise: min(max(chance.random() - self.beta * rise, 0.0), 1.0) <= self.tau


@dataclass(frozen=True, slots=True)
class BalancedEntropy:
    """Chains and branches in the proportion that a first rollout of the task suggests.

    That rollout is grown alone and whole. With H_root the entropy of its first turn and H_tool
    the mean of the turns behind a tool result, 0 if there are none, the number of chains, it
    among them, is int(total sigmoid((H_root - H_tool) / 2)) + 1.

    Source:
        AEPO, arXiv:2510.14545: branch if (U + beta dH) max(0, 1 - penalty l) >= tau, U uniform and
        l the rounds in a row, up to the last one, in which the task branched.
    Differs from the source:
        There the first rollout only measures and is thrown away; here it is one of the chains,
        and its turns can be branched from round 1 on. Otherwise as in `ToolEntropy`.
    """

    total: int = 8
    beta: float = 0.2
    tau: float = 0.5
    penalty: float = 0.05
    probe: Probe = Probe()
    root_tokens: int = 50
    """Tokens of the first turn that H_root is taken from."""

    def __post_init__(self) -> None:
        _check_budget(1, self.total)
        Probe(self.root_tokens)

    @property
    def forks(self) -> bool:
        """Unless one rollout is all there is."""
        return self.total > 1

    def __call__(
        self, groups: Sequence[Group], rounds_done: int, moment: Moment = ANY_MOMENT
    ) -> list[list[Fork]]:
        """Round 0 is the first rollout, round 1 plants the other chains, later ones advance all."""
        if rounds_done == 0:
            return [[Fork(NEW_TREE, ROOT_PARENT, keep=True)] for _ in groups]
        forks: list[list[Fork]] = []
        for g, group in enumerate(groups):
            fresh = self.chains(group) - 1 if rounds_done == 1 else 0
            chance = random.Random(derived(moment.seed, "branch", g))
            kept = max(0.0, 1 - self.penalty * _rounds_of_branching(group, rounds_done))
            asked = self._asked(chance, kept)
            forks.append(_advanced(group, rounds_done, self.total, self.probe, asked, fresh))
        return forks

    def _asked(self, chance: random.Random, kept: float) -> Asked:
        return lambda rise: (chance.random() + self.beta * rise) * kept >= self.tau

    def chains(self, group: Group) -> int:
        """How many chains a task gets, by its first rollout."""
        (tree,) = group.trees
        tool = [self.probe(tree.turns[i]) for i in tree.trunk[1:]]
        root = Probe(self.root_tokens, self.probe.scale)(tree.turns[tree.trunk[0]])
        gap = root - (fmean(tool) if tool else 0.0)
        return min(int(self.total / (1 + math.exp(-0.5 * gap))) + 1, self.total)


def _check_budget(initial: int, total: int) -> None:
    if initial < 1:
        raise ValueError(f"initial: at least 1 chain a task is needed, got {initial}")
    if total < max(initial, 2):
        raise ValueError(
            f"rollouts: at least 2 are compared with each other, and no fewer than the {initial} "
            f"chains they begin with; got {total}"
        )


def _chains(number: int) -> list[Fork]:
    return [Fork(NEW_TREE, ROOT_PARENT, keep=True, turns=1)] * number


def _advanced(
    group: Group, rounds_done: int, total: int, probe: Probe, asked: Asked, fresh: int = 0
) -> list[Fork]:
    """What goes on, what branches, and new chains; when nothing does, chains up to the total."""
    onwards = [
        Fork(t, leaf, keep=True, turns=1)
        for t, tree in enumerate(group.trees)
        for leaf in tree.leaves
        if tree.turns[leaf].end is End.STOPPED
    ]
    room = total - fresh - sum(len(tree.leaves) for tree in group.trees)
    branches: list[Fork] = []
    for t, turn in _behind_tools(group, rounds_done - 1):
        tree = group.trees[t]
        if len(branches) < room and asked(probe.rise(tree, turn)):
            branches.append(Fork(t, tree.turns[turn].parent, keep=True, turns=1))
    going = onwards + branches + _chains(fresh)
    return going or [Fork(NEW_TREE, ROOT_PARENT)] * room


def _behind_tools(group: Group, grown_in: int) -> Iterator[tuple[int, int]]:
    """Tree and turn of what a round answered to tool results."""
    for t, tree in enumerate(group.trees):
        for i, turn in enumerate(tree.turns):
            new = turn.grown_in == grown_in and turn.parent != ROOT_PARENT
            if new and turn.end is not End.FAILED:
                yield t, i


def _rounds_of_branching(group: Group, rounds_done: int) -> int:
    """In how many rounds in a row, the last one included, a sibling was added somewhere."""
    added = {
        tree.turns[i].grown_in
        for tree in group.trees
        for siblings in tree.children
        for i in siblings[1:]
    }
    number = 0
    while rounds_done - 1 - number in added:
        number += 1
    return number

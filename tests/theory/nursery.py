"""Any plan, grown in a small world: what `Grower` grows, without episodes, text or waiting.

Turns are numbered as `Grower` numbers them: every live rollout of a round answers in lockstep.
`test_estimators` grows the same plans with both and compares the trees.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from retrograde.data.evidence import Evidence
from retrograde.data.tree import ROOT_PARENT, End, Group, Tree, Turn
from retrograde.losses.policy import Level
from retrograde.rollouts.merge import merged
from retrograde.rollouts.plans import NEW_TREE, Fork

from .chances import Draw
from .growth import Actor, _Draft, _Walk
from .mdp import STATE, Step, values

V = TypeVar("V")
Ids = tuple[int, ...]
Place = tuple[int, int, int]
"""Group, tree and turn."""


@dataclass
class Teller(Actor):
    """An actor in a world that offers scores, turn rewards and a right answer."""

    one_version: bool = True
    """Whether all rounds are grown under one version of the weights."""
    steps: dict[tuple[int, int], tuple[list[float], list[Step]]] = field(default_factory=dict)
    known: dict[tuple, Turn] = field(default_factory=dict)
    trees: dict[tuple[int, ...], Tree] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        exact = values(self.world, self.policy.actions(self.theta_D))
        self.q = exact.q_KSA.tolist()
        probability = self.policy.letters(self.theta_D).exp()
        log = self.policy.letters(self.theta_D)
        self.entropy = -(probability * log).nan_to_num(0.0).sum(-1)
        self.entropies = self.entropy.tolist()

    def likely(self, turn: int, state: int) -> tuple[list[float], list[Step]]:
        """What may come of a turn, with its probabilities."""
        if (turn, state) not in self.steps:
            found = [
                (chosen * chance, step)
                for action, chosen in enumerate(self.choice[turn][state])
                for chance, step in self.world.outcomes(turn, state, action)
            ]
            self.steps[turn, state] = [p for p, _ in found], [step for _, step in found]
        return self.steps[turn, state]

    def score(self, step: Step, index: int) -> float:
        """Progress: 1 for a win, 0 for a loss, and on the way more in later states."""
        if step.onwards is not None:
            return (1 + step.onwards) / (2 + len(self.world.start_S))
        bonus = self.world.bonus[index][step.state][step.action]
        return float(step.reward - bonus > 1 / 2)

    def told(
        self,
        step: Step,
        index: int,
        parent: int,
        grown_in: int,
        *,
        end: End | None = None,
        into: int | None = None,
    ) -> Turn:
        """A step as a turn; equal ones are one and the same object."""
        key = (step, index, parent, grown_in, end, into)
        if key not in self.known:
            turn = self.turn(
                step, index=index, parent=parent, grown_in=grown_in, end=end, into=into
            )
            word, here = self.policy.words[step.action], self.entropies[index][step.state]
            self.known[key] = replace(
                turn,
                policy_version=0 if self.one_version else grown_in,
                score=self.score(step, index),
                entropies=tuple(here[self.policy.nodes[word[:i]]] for i in range(len(word))),
            )
        return self.known[key]

    def tree(self, turns: Sequence[Turn]) -> Tree:
        """Turns as a tree; equal ones are one and the same object."""
        key = tuple(map(id, turns))
        if key not in self.trees:
            self.trees[key] = Tree(tuple(turns))
        return self.trees[key]

    def evidence(self, group: Group, level: Level, *, blind: bool = False) -> Evidence:
        """What an exact critic says, and how likely the right answer was.

        Args:
            group: the trees.
            level: whether the critic says something before each token, or before each turn.
            blind: let the critic say 0 everywhere.
        """

        def values_at(turn: int, state: int, word: Ids) -> tuple[float, ...]:
            asked = word if level is Level.TOKEN else word[:1]
            return (0.0,) * len(asked) if blind else self._before(turn, state, asked)

        def gold_at(turn: int, state: int, word: Ids) -> float:
            del word
            return self._gold(turn, state)

        return Evidence(values=_Asked(group, values_at), gold_logp=_Asked(group, gold_at))

    def _before(self, turn: int, state: int, word: Ids) -> tuple[float, ...]:
        """Expected return from each token of an action on."""
        found: list[float] = []
        for i in range(len(word)):
            open_to = [
                (chosen, worth)
                for action, chosen, worth in zip(
                    self.policy.words,
                    self.choice[turn][state],
                    self.q[turn][state],
                    strict=True,
                )
                if action[:i] == tuple(word[:i])
            ]
            found.append(sum(c * q for c, q in open_to) / sum(c for c, _ in open_to))
        return tuple(found)

    def _gold(self, turn: int, state: int) -> float:
        """Log-probability, a token, of the last action, which is the one that is right."""
        word, here = self.policy.words[-1], self.letters[turn][state]
        return sum(here[self.policy.nodes[word[:i]]][word[i]] for i in range(len(word))) / len(word)


@dataclass(frozen=True)
class _Asked(Mapping[tuple[int, int], V]):
    """An answer for each turn of a group, found when it is asked for."""

    group: Group
    answer: Callable[[int, int, Ids], V]

    def __getitem__(self, place: tuple[int, int]) -> V:
        tree = self.group.trees[place[0]]
        turn = tree.turns[place[1]]
        return self.answer(tree.depths[place[1]], turn.observation[0] - STATE, turn.action)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        for t, tree in enumerate(self.group.trees):
            for turn in range(len(tree.turns)):
                yield t, turn

    def __len__(self) -> int:
        return sum(len(tree.turns) for tree in self.group.trees)


@dataclass
class _Rollout:
    """A rollout under way."""

    group: int
    tree: int
    parent: int
    depth: int
    state: int
    fork: Fork
    number: int


class Nursery:
    """Grows the groups of one iteration, and knows where each of their turns led."""

    def __init__(self, actor: Teller, draw: Draw, opening: int = 0) -> None:
        self.actor = actor
        self.draw = draw
        self.opening = opening
        self.onwards: dict[Place, int] = {}
        self.generated = 0

    def grow(
        self, groups: Sequence[Group], forks: Sequence[Sequence[Fork]], grown_in: int
    ) -> list[Group]:
        """The groups with a round more in them."""
        sprouts = [[list(tree.turns) for tree in group.trees] for group in groups]
        live = self._start(sprouts, forks)
        taken = 0
        while live:
            steps = [self._step(walk) for walk in live]
            drafts = [_drafted(w, s) for w, s in zip(live, steps, strict=True)]
            merges = (
                merged(drafts) if taken == 0 and any(w.fork.continuations for w in live) else {}
            )
            taken += 1
            following: list[_Rollout] = []
            numbers: list[int] = []
            for i, (walk, step) in enumerate(zip(live, steps, strict=True)):
                merge = merges.get(i)
                end = merge.end if merge is not None else None
                if end is None and step.onwards is not None and taken == walk.fork.turns:
                    end = End.STOPPED
                into = numbers[merge.into] if merge is not None and merge.into is not None else None
                turns = sprouts[walk.group][walk.tree]
                turns.append(
                    self.actor.told(step, walk.depth, walk.parent, grown_in, end=end, into=into)
                )
                self.generated += 1
                numbers.append(len(turns) - 1)
                if step.onwards is None:
                    continue
                self.onwards[walk.group, walk.tree, numbers[-1]] = step.onwards
                if end is None:
                    times = 1 if merge is None else merge.continuations
                    following += [self._on(walk, numbers[-1], step.onwards)] * times
            live = following
        return [
            Group(group.task, tuple(map(self.actor.tree, trees)))
            for group, trees in zip(groups, sprouts, strict=True)
        ]

    def _start(
        self, sprouts: Sequence[list[list[Turn]]], forks: Sequence[Sequence[Fork]]
    ) -> list[_Rollout]:
        live: list[_Rollout] = []
        number = 0
        for g, wanted in enumerate(forks):
            for fork in wanted:
                number += 1
                for _ in range(fork.answers):
                    tree = fork.tree
                    if tree == NEW_TREE:
                        sprouts[g].append([])
                        tree = len(sprouts[g]) - 1
                    live.append(self._sprout(sprouts[g][tree], (g, tree), fork, number))
        return live

    def _sprout(
        self, turns: list[Turn], place: tuple[int, int], fork: Fork, number: int
    ) -> _Rollout:
        if fork.parent == ROOT_PARENT:
            return _Rollout(*place, ROOT_PARENT, 0, self.opening, fork, number)
        parent = turns[fork.parent]
        if parent.end is End.STOPPED:
            turns[fork.parent] = self._reopened(parent)
        depth, at = 0, fork.parent
        while at != ROOT_PARENT:
            depth, at = depth + 1, turns[at].parent
        state = self.onwards[*place, fork.parent]
        return _Rollout(*place, fork.parent, depth, state, fork, number)

    def _reopened(self, turn: Turn) -> Turn:
        key = ("reopened", id(turn))
        if key not in self.actor.known:
            self.actor.known[key] = replace(turn, end=None)
        return self.actor.known[key]

    def _step(self, walk: _Rollout) -> Step:
        weights, steps = self.actor.likely(walk.depth, walk.state)
        return steps[self.draw(weights)]

    def _on(self, walk: _Rollout, turn: int, state: int) -> _Rollout:
        return replace(walk, parent=turn, depth=walk.depth + 1, state=state)


def _drafted(walk: _Rollout, step: Step) -> _Draft:
    key = step.onwards
    end = End.FINISHED if key is None else None
    context = () if key is None else (STATE + key,)
    return _Draft(_Walk(walk.fork, walk.number), end, context, key)

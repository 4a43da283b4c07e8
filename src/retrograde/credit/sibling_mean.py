"""Sibling credit: answers to the same state, judged against each other."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from retrograde.credit.standing import above
from retrograde.data.evidence import NO_EVIDENCE, Evidence
from retrograde.data.rows import Judgement
from retrograde.data.tree import ROOT_PARENT, End, Group, Tree


@dataclass(frozen=True, slots=True)
class SiblingMean:
    """Return minus the mean return of the siblings grown in the same round.

    Only the turn at which a rollout left the tree trains, and once: not what came
    before it, not what came after, and nothing of round 0. A sibling whose
    continuations all failed is neither trained nor part of the mean.

    Source:
        RTPO, arXiv:2608.18682, Algorithm 1, phase 2, step 3: A_j = R_j - mean_j R_j.
    Differs from the source:
        A sibling's return is the mean over its continuations, of which there may be several.
        Siblings that led to the same state share them (`Turn.merged_into`): the law of what
        follows is the same for both, so each return stays an unbiased sample.
    """

    def __call__(
        self, group: Group, grown_in: int, evidence: Evidence = NO_EVIDENCE
    ) -> Sequence[Judgement]:
        """One judgement for each tree."""
        del evidence
        return [_judged(tree, departures(tree, grown_in)) for tree in group.trees]


def _judged(tree: Tree, departed: Sequence[int]) -> Judgement:
    siblings: defaultdict[int, dict[int, float]] = defaultdict(dict)
    for turn in departed:
        value = value_of(tree, turn)
        if value is not None:
            siblings[tree.turns[turn].parent][turn] = value
    advantage: dict[int, float] = {}
    for values in siblings.values():
        level = fmean(values.values())
        advantage |= {turn: above(value, level) for turn, value in values.items()}
    advantage_V, trains_V = [0.0] * len(tree.visits), [False] * len(tree.visits)
    for visit, (_, turn) in enumerate(tree.visits):
        if turn in advantage:  # the first visit to it
            advantage_V[visit], trains_V[visit] = advantage.pop(turn), True
    return Judgement(tuple(advantage_V), tuple(trains_V))


def value_of(tree: Tree, turn: int) -> float | None:
    """Return up to a turn plus the mean of what its continuations brought; None if all failed.

    What follows a turn that was spared counts as 0: all its siblings share it, so it
    cancels from every difference among them.
    """
    node = tree.turns[turn]
    if node.end is End.FAILED:
        return None
    stands_for_it = node.merged_into if node.merged_into is not None else turn
    leaves = [leaf for leaf in _leaves_below(tree, stands_for_it) if not _failed(tree, leaf)]
    if not leaves:
        return None
    follows = fmean([tree.returns[leaf] - tree.returns[stands_for_it] for leaf in leaves])
    return tree.returns[turn] + follows


def departures(tree: Tree, grown_in: int) -> tuple[int, ...]:
    """Turns at which the rollouts of a round left what was there before; none for round 0."""
    if grown_in == 0:
        return ()
    return tuple(
        i
        for i, turn in enumerate(tree.turns)
        if turn.grown_in == grown_in
        and (turn.parent == ROOT_PARENT or tree.turns[turn.parent].grown_in != grown_in)
    )


def _failed(tree: Tree, leaf: int) -> bool:
    return tree.turns[leaf].end is End.FAILED


def _leaves_below(tree: Tree, turn: int) -> list[int]:
    below, found = [turn], list[int]()
    while below:
        node = below.pop()
        children = tree.children[node]
        below.extend(children)
        if not children:
            found.append(node)
    return found

"""What credits are made of: outcomes, how they stand among each other, and who gets what.

A rollout is named by (tree, leaf), a turn by (tree, turn), a visit by (tree, leaf, turn).
"""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping
from statistics import fmean, pstdev, stdev
from typing import TypeVar

from retrograde.data.rows import Advantage, Judgement
from retrograde.data.tree import End, Group

K = TypeVar("K", bound=Hashable)
Rollout = tuple[int, int]
Place = tuple[int, int]
Visit = tuple[int, int, int]


def outcomes(group: Group) -> dict[Rollout, float]:
    """The return of each rollout of a group that did not fail."""
    return {
        (t, leaf): tree.returns[leaf]
        for t, tree in enumerate(group.trees)
        for leaf in tree.leaves
        if tree.turns[leaf].end is not End.FAILED
    }


def differs(group: Group) -> bool:
    """Whether the returns of a group's valid rollouts are not all equal."""
    returns = outcomes(group).values()
    return bool(returns) and not all_equal(returns)


def paths(group: Group) -> dict[Rollout, tuple[int, ...]]:
    """The turns, first to last, of each rollout of a group that did not fail."""
    return {(t, leaf): group.trees[t].path(leaf) for t, leaf in outcomes(group)}


def relative(
    values: Mapping[K, float],
    *,
    scale: bool = True,
    population: bool = False,
    epsilon: float = 1e-6,
) -> dict[K, float]:
    """(value - mean) / (standard deviation + epsilon) of each.

    Values that are all equal, a single one among them, stand at exactly 0: on paper they can be
    equal and still differ in the last place, as .1 + .2 and .3 do.

    Args:
        values: what stands among each other.
        scale: divide by the standard deviation.
        population: take that of a population (ddof 0), not of a sample (ddof 1).
        epsilon: added to the standard deviation.
    """
    if not values:
        return {}
    each = list(values.values())
    if all_equal(each):
        return dict.fromkeys(values, 0.0)
    level = fmean(each)
    spread = (pstdev(each) if population else stdev(each)) + epsilon if scale else 1.0
    return {key: (value - level) / spread for key, value in values.items()}


def above(value: float, level: float) -> float:
    """value - level, and exactly 0 where they differ in the last places only.

    The mean of equal floats can differ from them; what is equal must give no gradient at all.
    """
    same = math.isclose(value, level, rel_tol=1e-12, abs_tol=1e-12)
    return 0.0 if same else value - level


def all_equal(values: Collection[float]) -> bool:
    """Whether values, of which there is one at least, are equal up to rounding.

    On paper they can be equal and still differ in the last place, as .1 + .2 and .3 do.
    """
    return math.isclose(min(values), max(values), rel_tol=1e-12, abs_tol=1e-12)


def relative_within(
    values: Mapping[K, float],
    part: Callable[[K], Hashable],
    *,
    scale: bool = True,
    population: bool = False,
    epsilon: float = 1e-6,
) -> dict[K, float]:
    """`relative` within each part of the values: those for which `part` says the same."""
    parts: defaultdict[Hashable, dict[K, float]] = defaultdict(dict)
    for key, value in values.items():
        parts[part(key)][key] = value
    how = {"scale": scale, "population": population}
    return {
        key: stands
        for each in parts.values()
        for key, stands in relative(each, epsilon=epsilon, **how).items()
    }


def by_rollout(group: Group, advantage: Mapping[Rollout, Advantage]) -> list[Judgement]:
    """Each turn of a rollout gets the rollout's advantage; rollouts not named do not train."""
    return by_visit(
        group,
        {
            (t, leaf, turn): advantage[t, leaf]
            for t, tree in enumerate(group.trees)
            for leaf, turn in tree.visits
            if (t, leaf) in advantage
        },
    )


def by_turn(
    group: Group, advantage: Mapping[Place, Advantage], *, once: bool = False
) -> list[Judgement]:
    """Each visit to a turn gets the turn's advantage; turns not named do not train.

    Visits on a failed rollout do not train.

    Args:
        group: the trees.
        advantage: of turns.
        once: train a shared turn on the first rollout through it only, not on each.
    """
    seen: set[Place] = set()
    found: dict[Visit, Advantage] = {}
    for t, tree in enumerate(group.trees):
        for leaf, turn in tree.visits:
            valid = (t, turn) in advantage and tree.turns[leaf].end is not End.FAILED
            if valid and not (once and (t, turn) in seen):
                seen.add((t, turn))
                found[t, leaf, turn] = advantage[t, turn]
    return by_visit(group, found)


def by_visit(group: Group, advantage: Mapping[Visit, Advantage]) -> list[Judgement]:
    """Visits that are not named do not train."""
    return [
        Judgement(
            tuple(advantage.get((t, leaf, turn), 0.0) for leaf, turn in tree.visits),
            tuple((t, leaf, turn) in advantage for leaf, turn in tree.visits),
        )
        for t, tree in enumerate(group.trees)
    ]

"""Values carried from the leaves of a group up to every turn; all its trees have one root."""

from collections import defaultdict
from collections.abc import Callable, Mapping

from retrograde.data.tree import ROOT_PARENT, Group

Place = tuple[int, int]
"""Tree and turn."""
ROOT: Place = (-1, -1)
"""What the first turns of all trees of a group follow."""


def parent_of(group: Group, place: Place) -> Place:
    """The place before a turn."""
    tree, turn = place
    parent = group.trees[tree].turns[turn].parent
    return ROOT if parent == ROOT_PARENT else (tree, parent)


def carried_up(
    group: Group,
    leaves: Mapping[Place, float],
    combine: Callable[[Mapping[Place, float]], float],
) -> dict[Place, float]:
    """The value of each leaf given, of each turn that one of them lies below, and of ROOT.

    Args:
        group: the trees.
        leaves: values of leaves; those not named count for nothing.
        combine: makes a turn's value of its children's.
    """
    values: dict[Place, float] = {}
    below: defaultdict[Place, dict[Place, float]] = defaultdict(dict)
    for t, tree in enumerate(group.trees):
        for turn in reversed(range(len(tree.turns))):
            place = (t, turn)
            if place in leaves:
                values[place] = leaves[place]
            elif below[place]:
                values[place] = combine(below[place])
            else:
                continue
            below[parent_of(group, place)][place] = values[place]
    if below[ROOT]:
        values[ROOT] = combine(below[ROOT])
    return values


def leaves_below(group: Group, leaves: Mapping[Place, float]) -> dict[Place, float]:
    """How many of the leaves given lie below each turn; a leaf lies below itself."""
    return carried_up(group, dict.fromkeys(leaves, 1.0), lambda below: sum(below.values()))

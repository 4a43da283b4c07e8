"""Turn credit in a tree: how much better than the task's mean, and than the turn before."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from retrograde.credit.ancestry import ROOT, carried_up, leaves_below, parent_of
from retrograde.credit.standing import above, by_turn, outcomes
from retrograde.data.evidence import NO_EVIDENCE, Evidence
from retrograde.data.rows import Judgement
from retrograde.data.tree import Group


@dataclass(frozen=True, slots=True)
class LocalGlobal:
    """[V(n) - V(parent)] + V(n), with V(n) = (mean of the leaves below n - level) / sqrt(leaves).

    A leaf is worth its return minus the mean return of the others. The level is the mean over
    all action tokens of all rollouts, each token worth what its turn is. All trees of a group
    have one root, which has no tokens. Failed leaves count nowhere.

    The root is divided by the square root of its leaves as all others are: V(n) and V(parent)
    are on different scales, and their difference is not that of two values. An only child
    whose parent has no other leaf gets V(n) alone.

    Source:
        TreeRL, arXiv:2506.11902, equations of the local and global advantage; the scaling and
        the level are read from the published code (gather_paths, normalize_all_steps).
    Differs from the source:
        All leaves train and count, where the source draws 16 of 30. Returns are the
        environment's; the source adds a reward model's.
    """

    def __call__(
        self, group: Group, grown_in: int, evidence: Evidence = NO_EVIDENCE
    ) -> Sequence[Judgement]:
        """One judgement for each tree; the round does not matter."""
        del grown_in, evidence
        found = outcomes(group)
        if not found:
            return by_turn(group, {})
        total, others = math.fsum(found.values()), max(len(found) - 1, 1)
        leaf = {
            rollout: above(own, (total - own) / others) if len(found) > 1 else 0.0
            for rollout, own in found.items()
        }
        sums = carried_up(group, leaf, lambda below: math.fsum(below.values()))
        leaves = leaves_below(group, leaf)
        tokens = {(t, n): len(group.trees[t].turns[n].action) for t, n in sums if (t, n) != ROOT}
        level = math.fsum(size * sums[place] for place, size in tokens.items()) / math.fsum(
            size * leaves[place] for place, size in tokens.items()
        )
        value = {
            place: above(sums[place] / leaves[place], level) / math.sqrt(leaves[place])
            for place in sums
        }
        advantage = {
            place: above(value[place], value[parent_of(group, place)]) + value[place]
            for place in tokens
        }
        return by_turn(group, advantage)

"""Turn credit in a tree: what a turn is worth is a weighted mean of what its children are worth."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from retrograde.credit.ancestry import ROOT, Place, carried_up, leaves_below, parent_of
from retrograde.credit.standing import above, by_rollout, by_turn, outcomes, relative
from retrograde.data.evidence import NO_EVIDENCE, Evidence
from retrograde.data.rows import Judgement
from retrograde.data.tree import Group


@dataclass(frozen=True, slots=True)
class TurnValue:
    """Standardised returns of a task's leaves, carried up with the children's uncertainty.

    V(leaf) = (return - mean) / (std + 1e-6) over the leaves of the group; V(n) = sum over the
    children c of n of w(c) V(c). All trees of the group hang under one root. A failed leaf
    counts nowhere, and a turn with failed leaves alone below it does not train.

    The weights are the children's shares of the uncertainty of their siblings. Where all of
    them are certain there is nothing to share, and the plain mean is taken.

    Source:
        AT2PO, arXiv:2601.04767, section on turn-wise credit (w(c) = H(c) / sum of H).
    Differs from the source:
        A turn shared by m rollouts trains m times, as in the code; `once` trains it once.
        The standard deviation is that of a population, as in the code; the paper is silent.
    """

    child_weights: Literal["share", "softmax", "mean", "leaf_mean"] = "share"
    """In proportion to uncertainty (the paper), to its exponential (the code), equal for each
    child, or for each leaf below."""
    credit: Literal["value", "local", "global", "both", "outcome"] = "value"
    """V; V - V(parent); V - V(root); the sum of both; or, for each rollout, V of its leaf."""
    once: bool = False

    def __call__(
        self, group: Group, grown_in: int, evidence: Evidence = NO_EVIDENCE
    ) -> Sequence[Judgement]:
        """One judgement for each tree; the round does not matter."""
        del grown_in, evidence
        standing = relative(outcomes(group), population=True)
        if self.credit == "outcome":
            return by_rollout(group, standing)
        leaves = leaves_below(group, standing)

        def combined(below: Mapping[Place, float]) -> float:
            return _mean(below, self._weights(group, below, leaves))

        value = carried_up(group, standing, combined)
        advantage = {
            place: self._advantage(value[place], value[parent_of(group, place)], value[ROOT])
            for place in value
            if place != ROOT
        }
        return by_turn(group, advantage, once=self.once)

    def _weights(
        self, group: Group, siblings: Mapping[Place, float], leaves: Mapping[Place, float]
    ) -> dict[Place, float]:
        """What each sibling counts, relative to the others."""
        if self.child_weights == "mean":
            return dict.fromkeys(siblings, 1.0)
        if self.child_weights == "leaf_mean":
            return {place: leaves[place] for place in siblings}
        nll = {(t, turn): group.trees[t].turns[turn].nll for t, turn in siblings}
        if self.child_weights == "share":
            return nll
        most = max(nll.values())
        return {place: math.exp(each - most) for place, each in nll.items()}

    def _advantage(self, value: float, parent: float, root: float) -> float:
        if self.credit == "value":
            return above(value, 0.0)
        if self.credit == "local":
            return above(value, parent)
        if self.credit == "global":
            return above(value, root)
        return above(value, parent) + above(value, root)


def _mean(values: Mapping[Place, float], weights: Mapping[Place, float]) -> float:
    total = math.fsum(weights.values())
    if total == 0:  # all are certain: 0 / 0 in the paper
        return math.fsum(values.values()) / len(values)
    return math.fsum(weights[place] * values[place] for place in values) / total

"""Group credit: whole rollouts of one task, judged against each other."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from retrograde.data.evidence import NO_EVIDENCE, Evidence
from retrograde.data.rows import Judgement
from retrograde.data.tree import End, Group


@dataclass(frozen=True, slots=True)
class GroupRelative:
    """(return - mean) / (std + 1e-6) over the rollouts of a group, for each turn of a rollout.

    A failed rollout is neither trained nor part of the mean. A single valid rollout has
    nothing to be compared with: it trains with an advantage of 0.

    Source:
        GRPO, arXiv:2402.03300, section 4.1.2 (outcome supervision).
    Differs from the source:
        A group whose returns are all equal gets exactly 0, not dust over 1e-6. The standard
        deviation is that of a sample (ddof 1), as verl and TRL take it; the paper is silent.
    """

    scale: bool = True
    """Divide by the standard deviation."""

    def __call__(
        self, group: Group, grown_in: int, evidence: Evidence = NO_EVIDENCE
    ) -> Sequence[Judgement]:
        """One judgement for each tree; the round does not matter."""
        del grown_in, evidence
        returns = [
            tree.returns[leaf]
            for tree in group.trees
            for leaf in tree.leaves
            if tree.turns[leaf].end is not End.FAILED
        ]
        level, spread = _moments(returns)
        judged: list[Judgement] = []
        for tree in group.trees:
            valid_V = tuple(tree.turns[leaf].end is not End.FAILED for leaf, _ in tree.visits)
            advantage_V = tuple(
                (tree.returns[leaf] - level) / (spread + 1e-6 if self.scale else 1.0)
                if valid and spread > 0
                else 0.0
                for valid, (leaf, _) in zip(valid_V, tree.visits, strict=True)
            )
            judged.append(Judgement(advantage_V, valid_V))
        return judged


def _moments(returns: Sequence[float]) -> tuple[float, float]:
    if not returns:
        return 0.0, 0.0
    # Returns that are equal on paper can differ in the last place, as .1 + .2 and .3 do.
    if math.isclose(min(returns), max(returns), rel_tol=1e-12, abs_tol=1e-12):
        return fmean(returns), 0.0
    return fmean(returns), stdev(returns)

"""Credit by shared past: a rollout against those that began as it did, for each length of past."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from retrograde.credit.ancestry import Place
from retrograde.credit.standing import Rollout, above, by_rollout, outcomes
from retrograde.data.evidence import NO_EVIDENCE, Evidence
from retrograde.data.rows import Judgement
from retrograde.data.tree import Group


@dataclass(frozen=True, slots=True)
class PrefixMean:
    """Mean over j of (return - mean return of the rollouts that share the first j turns).

    j = 0 is all rollouts of the task; for larger j only what is shared counts. Each turn of a
    rollout gets the same. Failed rollouts count nowhere.

    Source:
        TreePO, arXiv:2508.17445, section on tree-based advantage.
    Differs from the source:
        The whitening over the update is `Algorithm.normalise`.
    """

    weighting: Literal["average", "size"] = "average"
    """Each j counts the same, or in proportion to the rollouts that share so much."""

    def __call__(
        self, group: Group, grown_in: int, evidence: Evidence = NO_EVIDENCE
    ) -> Sequence[Judgement]:
        """One judgement for each tree; the round does not matter."""
        del grown_in, evidence
        found = outcomes(group)
        through: defaultdict[Place, list[float]] = defaultdict(list)
        for (t, leaf), own in found.items():
            for turn in group.trees[t].path(leaf):
                through[t, turn].append(own)
        advantage: dict[Rollout, float] = {}
        for (t, leaf), own in found.items():
            shared = (through[t, turn] for turn in group.trees[t].path(leaf))
            alike = [list(found.values()), *(each for each in shared if len(each) > 1)]
            weights = [1 if self.weighting == "average" else len(each) for each in alike]
            gaps = [above(own, fmean(each)) for each in alike]
            advantage[t, leaf] = fmean(gaps, weights)
        return by_rollout(group, advantage)

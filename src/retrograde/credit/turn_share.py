"""Turn-share credit: what a rollout is worth, divided among its turns."""

from collections.abc import Sequence
from dataclasses import dataclass

from retrograde.credit.standing import by_rollout, outcomes, paths, relative
from retrograde.data.evidence import NO_EVIDENCE, Evidence
from retrograde.data.rows import Judgement
from retrograde.data.tree import Group


@dataclass(frozen=True, slots=True)
class TurnShare:
    """(return - mean) / (std + 1e-6) over the rollouts of a group, over the turns of the rollout.

    Advantages of a group add up to 0 over all turns, however long its rollouts are. That holds of
    the gradient only under a mean that adds turns up (`Mean.ROLLOUT_TURNS`).

    Source:
        STEPO in EvoCUA-1.5, arXiv:2607.09773.
    Differs from the source:
        Nothing known. Which standard deviation it takes is not stated.
    """

    population: bool = True
    """Take the standard deviation of a population (ddof 0), not of a sample (ddof 1)."""

    def __call__(
        self, group: Group, grown_in: int, evidence: Evidence = NO_EVIDENCE
    ) -> Sequence[Judgement]:
        """One judgement for each tree; the round does not matter."""
        del grown_in, evidence
        whole = relative(outcomes(group), population=self.population)
        turns = {rollout: len(path) for rollout, path in paths(group).items()}
        return by_rollout(group, {rollout: whole[rollout] / turns[rollout] for rollout in whole})

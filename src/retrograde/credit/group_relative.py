"""Group credit: whole rollouts of one task, judged against each other."""

from collections.abc import Sequence
from dataclasses import dataclass

from retrograde.credit.standing import by_rollout, outcomes, relative
from retrograde.data.evidence import NO_EVIDENCE, Evidence
from retrograde.data.rows import Judgement
from retrograde.data.tree import Group


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
        return by_rollout(group, relative(outcomes(group), scale=self.scale))

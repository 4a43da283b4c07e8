"""Outcome credit without a scale: a rollout's return, less a baseline of its group."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from retrograde.credit.standing import by_rollout, outcomes, relative
from retrograde.data.evidence import NO_EVIDENCE, Evidence
from retrograde.data.rows import Judgement
from retrograde.data.tree import Group

Baseline = Literal["none", "mean", "others"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Return, return - mean, or return - mean of the others, for each turn of a rollout.

    A failed rollout is neither trained nor part of a mean. A single valid rollout has nothing to
    be compared with: with a baseline it trains with an advantage of 0.

    Source:
        REINFORCE, Williams 1992; others: RLOO, arXiv:2402.14740, section 3.
    Differs from the source:
        Each turn of a rollout gets the rollout's advantage; the sources have one turn.
    """

    baseline: Baseline = "mean"

    def __call__(
        self, group: Group, grown_in: int, evidence: Evidence = NO_EVIDENCE
    ) -> Sequence[Judgement]:
        """One judgement for each tree; the round does not matter."""
        del grown_in, evidence
        returns = outcomes(group)
        if self.baseline == "none":
            return by_rollout(group, returns)
        # R - mean of the others = G / (G - 1) (R - mean of all).
        count = len(returns)
        factor = count / (count - 1) if self.baseline == "others" and count > 1 else 1.0
        above = relative(returns, scale=False)
        return by_rollout(group, {rollout: factor * value for rollout, value in above.items()})

"""First-success credit: rollouts ranked by the turn of their first success."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from retrograde.credit.standing import Visit, by_visit, paths
from retrograde.data.evidence import NO_EVIDENCE, Evidence
from retrograde.data.rows import Judgement
from retrograde.data.tree import Group


@dataclass(frozen=True, slots=True)
class FirstSuccess:
    """R_i = (rollouts that succeeded later - rollouts that succeeded earlier) / (G - 1).

    Never is later than any turn. Where R_i > 0, a turn gets gamma^(turns up to the success) R_i:
    the failed tries before it less than it; otherwise every turn gets R_i. Ranks are not
    normalised again. What a rollout does after its success does not train.

    Source:
        LEAP, arXiv:2608.01804: rank-based reward and turn credit.
    Differs from the source:
        Discount and exponent are ours, since they were not to be found.
    """

    gamma: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.gamma <= 1:
            raise ValueError(f"gamma: a discount in [0, 1] is needed, got {self.gamma}")

    def __call__(
        self, group: Group, grown_in: int, evidence: Evidence = NO_EVIDENCE
    ) -> Sequence[Judgement]:
        """One judgement for each tree; the round does not matter."""
        del grown_in, evidence
        rollouts = paths(group)
        first = {
            (t, leaf): next(
                (k for k, turn in enumerate(path) if group.trees[t].turns[turn].score == 1),
                math.inf,
            )
            for (t, leaf), path in rollouts.items()
        }
        found: dict[Visit, float] = {}
        for rollout, path in rollouts.items():
            own = first[rollout]
            ahead = sum((own < other) - (other < own) for other in first.values())
            rank = ahead / max(len(first) - 1, 1)
            for k, turn in enumerate(path):
                if k <= own:
                    found[*rollout, turn] = rank * self.gamma ** (own - k) if rank > 0 else rank
        return by_visit(group, found)

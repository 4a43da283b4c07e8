"""Credit for turns that made the right answer likelier."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from retrograde.credit.standing import Visit, all_equal, by_visit, outcomes, relative
from retrograde.data.evidence import NO_EVIDENCE, Evidence
from retrograde.data.rows import Judgement
from retrograde.data.tree import Group


@dataclass(frozen=True, slots=True)
class InformationGain:
    """How far a turn raised the probability of the right answer, and how the rollout ended.

    With p the probability of the right answer, length-normalised, the gain of turn t is p in
    the place of turn t + 1 less p in the place of t. Gains stand among those of the same
    turn index in the group: z_t = (gain - mean) / sqrt(variance + 1e-8), over 1 for a single
    one. A turn's advantage is alpha (sum over j >= t of gamma^(j-t) z_j) / sqrt(terms), plus
    the outcome's standing; the turn that ends a rollout has no gain and the outcome alone.
    Bounds of the ratio are scaled by 1 + clip_scale (2 sigmoid(z_t) - 1), by 1 on the last turn.

    Source:
        A2TGPO, arXiv:2605.06200.
    Differs from the source:
        A turn whose gain is exactly 0 is a turn like others; the code takes it for none.
    """

    alpha: float = 0.3
    gamma: float = 1.0
    clip_scale: float = 0.3

    def __post_init__(self) -> None:
        if not 0 <= self.gamma <= 1:
            raise ValueError(f"gamma: a discount in [0, 1] is needed, got {self.gamma}")
        if not 0 <= self.clip_scale < 1:
            raise ValueError(f"clip_scale: at least 0 and below 1 needed, got {self.clip_scale}")

    def __call__(
        self, group: Group, grown_in: int, evidence: Evidence = NO_EVIDENCE
    ) -> Sequence[Judgement]:
        """One judgement for each tree; the round does not matter."""
        del grown_in
        standing = relative(outcomes(group))
        gains = _gains(group, evidence)
        advantage: dict[Visit, float] = {}
        for t, leaf in standing:
            ahead, terms = 0.0, 0
            for turn in reversed(group.trees[t].path(leaf)):
                place = t, leaf, turn
                if place in gains:
                    ahead, terms = gains[place] + self.gamma * ahead, terms + 1
                advantage[place] = standing[t, leaf] + self.alpha * ahead / math.sqrt(max(terms, 1))
        scale = {
            place: 1 + self.clip_scale * math.tanh(gain / 2) for place, gain in gains.items()
        }  # 2 sigmoid(z) - 1 = tanh(z / 2)
        return [
            judgement._replace(
                clip_V=tuple(scale.get((t, leaf, turn), 1.0) for leaf, turn in tree.visits)
            )
            for t, (tree, judgement) in enumerate(
                zip(group.trees, by_visit(group, advantage), strict=True)
            )
        ]


def _gains(group: Group, evidence: Evidence) -> dict[Visit, float]:
    """Gains of valid rollouts, by visit, standardised among those of the same turn index."""
    found: defaultdict[int, dict[Visit, float]] = defaultdict(dict)
    for t, leaf in outcomes(group):
        path = group.trees[t].path(leaf)
        p = [math.exp(evidence.gold_logp[t, turn]) for turn in path]
        for k, (before, after) in enumerate(pairwise(p)):
            found[k][t, leaf, path[k]] = after - before
    return {place: z for alike in found.values() for place, z in _standardised(alike).items()}


def _standardised(values: dict[Visit, float]) -> dict[Visit, float]:
    if all_equal(values.values()):
        return dict.fromkeys(values, 0.0)  # a single one, too
    level = fmean(values.values())
    variance = fmean((value - level) ** 2 for value in values.values())
    spread = math.sqrt(variance + 1e-8)
    return {place: (value - level) / spread for place, value in values.items()}

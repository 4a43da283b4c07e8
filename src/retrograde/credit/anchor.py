"""Anchor credit: a rollout among its group, and each turn among turns that were told the same."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from retrograde.credit.standing import (
    Visit,
    by_visit,
    outcomes,
    paths,
    relative,
    relative_within,
)
from retrograde.data.evidence import NO_EVIDENCE, Evidence
from retrograde.data.rows import Judgement
from retrograde.data.tree import Group

Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AnchorRelative:
    """A^E + omega A^S: the outcome among all rollouts, the step return among equal anchors.

    The anchor of a turn is what the environment said before it, not the context: where the
    policy is shown more than that, one anchor group mixes different contexts, and differences
    of state count as differences of action. A turn whose anchor nobody shares has A^S = 0. All
    rollouts share the opening, so the first turn is always compared.

    Source:
        GiGPO, arXiv:2505.10978, equations 3 to 8.
    Differs from the source:
        A single rollout of a group gets A^E = 0; the code gives it its return. Equal values get
        exactly 0. Similarity is of token ids, not of characters.
    """

    omega: float = 1.0
    """Weight of A^S."""
    gamma: float = 0.95
    """Discount of step returns."""
    scale: bool = True
    """Divide both by the standard deviation (ddof 1) + 1e-6."""
    similarity: float | None = None
    """Anchors also count as equal if difflib's ratio to the first one of their kind is at least
    this; None asks for the same ids."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.omega) and self.omega >= 0):
            raise ValueError(f"omega: a weight of at least 0 is needed, got {self.omega}")
        if not 0 <= self.gamma <= 1:
            raise ValueError(f"gamma: a discount in [0, 1] is needed, got {self.gamma}")
        if self.similarity is not None and not 0 < self.similarity <= 1:
            raise ValueError(f"similarity: in (0, 1] or None is needed, got {self.similarity}")

    def __call__(
        self, group: Group, grown_in: int, evidence: Evidence = NO_EVIDENCE
    ) -> Sequence[Judgement]:
        """One judgement for each tree; the round does not matter."""
        del grown_in, evidence
        whole = relative(outcomes(group), scale=self.scale)
        steps = step_returns(group, self.gamma)
        kinds = self._kinds(group, steps)
        local = relative_within(steps, kinds.__getitem__, scale=self.scale)
        return by_visit(
            group, {visit: whole[visit[:2]] + self.omega * local[visit] for visit in steps}
        )

    def _kinds(self, group: Group, visits: Iterable[Visit]) -> dict[Visit, Ids]:
        """The anchor that stands for each visit's: the first one told of those alike."""
        seen: list[Ids] = []
        stands_for: dict[Ids, Ids] = {}
        found: dict[Visit, Ids] = {}
        for visit in visits:
            told = group.trees[visit[0]].turns[visit[2]].observation
            if told not in stands_for:
                stands_for[told] = next((kind for kind in seen if self._alike(kind, told)), told)
                if stands_for[told] is told:
                    seen.append(told)
            found[visit] = stands_for[told]
        return found

    def _alike(self, kind: Ids, told: Ids) -> bool:
        if self.similarity is None:
            return False
        return SequenceMatcher(None, kind, told, autojunk=False).ratio() >= self.similarity


def step_returns(group: Group, gamma: float) -> dict[Visit, float]:
    """Discounted rewards from each turn of each rollout on, its own included."""
    found: dict[Visit, float] = {}
    for (t, leaf), path in paths(group).items():
        follows = 0.0
        for turn in reversed(path):
            follows = group.trees[t].turns[turn].reward + gamma * follows
            found[t, leaf, turn] = follows
    return found

"""DAPO's credit: groups that say nothing do not train, and rollouts must not be overlong."""

from collections.abc import Sequence
from dataclasses import dataclass

from retrograde.credit.standing import by_rollout, differs, outcomes, relative
from retrograde.data.evidence import NO_EVIDENCE, Evidence
from retrograde.data.rows import Judgement
from retrograde.data.tree import Group


@dataclass(frozen=True, slots=True)
class DynamicSampling:
    """Group-relative credit on returns with a penalty for length, where returns differ.

    A group whose returns, the penalty left aside, are all equal is dropped: it does not train.

    Source:
        DAPO, arXiv:2503.14476, equations 8, 9 and 13.
    Differs from the source:
        A rollout's length is that of its action tokens, all turns together.
    """

    longest: int = 20480
    """Action tokens of a rollout at which the penalty is whole."""
    buffer: int = 4096
    """Action tokens before that at which it begins."""
    factor: float = 1.0
    """The whole penalty; 0 for none."""

    def __post_init__(self) -> None:
        if not 0 < self.buffer <= self.longest:
            raise ValueError(
                f"buffer: above 0 and at most longest={self.longest} is needed, got {self.buffer}"
            )
        if not self.factor >= 0:
            raise ValueError(f"factor: at least 0 is needed, got {self.factor}")

    def __call__(
        self, group: Group, grown_in: int, evidence: Evidence = NO_EVIDENCE
    ) -> Sequence[Judgement]:
        """One judgement for each tree; the round does not matter."""
        del grown_in, evidence
        if not differs(group):
            return by_rollout(group, {})
        shaped = {
            (t, leaf): value + self.penalty(_length(group, t, leaf))
            for (t, leaf), value in outcomes(group).items()
        }
        return by_rollout(group, relative(shaped))

    def penalty(self, tokens: int) -> float:
        """0 up to longest - buffer, then linear, -factor from longest on."""
        over = tokens - (self.longest - self.buffer)
        # verl's code has no lower end: its answers cannot be longer than longest.
        return -self.factor * min(max(over / self.buffer, 0.0), 1.0)


def _length(group: Group, t: int, leaf: int) -> int:
    tree = group.trees[t]
    return sum(len(tree.turns[turn].action) for turn in tree.path(leaf))

"""The size of advantages over a whole update."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from retrograde.data.rows import Row


@dataclass(frozen=True, slots=True)
class BatchScale:
    """Divides advantages by the standard deviation (ddof 1) + 1e-6 over the rollouts of an update.

    A rollout counts once, however many turns it has: its advantage is one number, and every turn
    has a pool with each rollout in it. Advantages are differences from a group's mean, so their
    mean over the update is 0 already; it is not subtracted again, for its rounding error would
    make a signal of groups whose outcomes are all equal.

    Source:
        SeeUPO, arXiv:2602.06554: batch normalisation of r - mean of the group.
    Differs from the source:
        It does not say whether rollouts or turns are counted, nor which ddof.
    """

    bound: float | None = None
    """Advantages are held between minus this and this; None leaves them."""

    def __post_init__(self) -> None:
        if self.bound is not None and not self.bound > 0:
            raise ValueError(f"bound: above 0 or None is needed, got {self.bound}")

    def __call__(self, rows: Sequence[Row]) -> list[Row]:
        """The rows, in order; those of a single rollout as they are.

        Raises:
            ValueError: the rows of one rollout do not all have the same advantage.
        """
        each: dict[tuple[int, int, int, int], float] = {}
        for row in rows:
            if len({*row.advantages, each.setdefault(row.rollout, row.advantages[0])}) > 1:
                raise ValueError(
                    f"one advantage for all tokens of a rollout is needed, got "
                    f"{row.advantage} at turn {row.turn} and {each[row.rollout]} before it"
                )
        if len(each) < 2:  # noqa: PLR2004 - one number has no standard deviation
            return list(rows)
        spread = math.sqrt(sum(a * a for a in each.values()) / (len(each) - 1)) + 1e-6
        return [replace(row, advantage=self._held(each[row.rollout] / spread)) for row in rows]

    def _held(self, advantage: float) -> float:
        if self.bound is None:
            return advantage
        return min(max(advantage, -self.bound), self.bound)

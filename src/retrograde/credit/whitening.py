"""Advantages of a whole update, brought to mean 0 and standard deviation 1."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from retrograde.credit.standing import all_equal
from retrograde.data.rows import Advantage, Row


@dataclass(frozen=True, slots=True)
class Whitened:
    """(advantage - mean) / sqrt(variance + 1e-8) over all action tokens of an update.

    Taken before the update is split into minibatches. Advantages that are all equal become
    exactly 0.

    Source:
        verl's masked_whiten: the variance is that of a sample.
    Differs from the source:
        A single token stands at 0; verl refuses it.
    """

    turns: bool = False
    """Count each turn once, not each token; for advantages that are one a turn."""

    def __call__(self, rows: Sequence[Row]) -> list[Row]:
        """The same rows with other advantages."""
        if not rows:
            return []
        each = [a for row in rows for a in (row.advantages[:1] if self.turns else row.advantages)]
        if all_equal(each):
            return [replace(row, advantage=0.0) for row in rows]
        mean = fmean(each)
        variance = math.fsum((a - mean) ** 2 for a in each) / (len(each) - 1)
        spread = math.sqrt(variance + 1e-8)
        return [replace(row, advantage=_moved(row.advantage, mean, spread)) for row in rows]


def _moved(advantage: Advantage, mean: float, spread: float) -> Advantage:
    if isinstance(advantage, tuple):
        return tuple((a - mean) / spread for a in advantage)
    return (advantage - mean) / spread

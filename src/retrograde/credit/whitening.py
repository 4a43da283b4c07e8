"""Advantages made to have mean 0 and variance 1 over all action tokens of an update."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from retrograde.data.rows import Row


@dataclass(frozen=True, slots=True)
class Whiten:
    """(advantage - mean) / sqrt(variance + epsilon), each token counting as one.

    The variance is that of a sample (ddof 1). If all are equal, all become exactly 0.

    Source:
        verl's masked_whiten; REINFORCE++, arXiv:2501.03262, and TreePO, arXiv:2508.17445.
    Differs from the source:
        Where all advantages are equal, the source divides what rounding leaves by 1e-4.
    """

    epsilon: float = 1e-8

    def __call__(self, rows: Sequence[Row]) -> list[Row]:
        """The rows, in order."""
        every = [advantage for row in rows for advantage in row.advantages]
        if not every:
            return []
        if math.isclose(min(every), max(every), rel_tol=1e-12, abs_tol=1e-12):
            return [replace(row, advantage=0.0) for row in rows]
        level = fmean(every)
        variance = math.fsum((each - level) ** 2 for each in every) / (len(every) - 1)
        scale = 1.0 / math.sqrt(variance + self.epsilon)
        return [replace(row, advantage=_moved(row, level, scale)) for row in rows]


def _moved(row: Row, level: float, scale: float) -> float | tuple[float, ...]:
    if isinstance(row.advantage, tuple):
        return tuple((each - level) * scale for each in row.advantage)
    return (row.advantage - level) * scale

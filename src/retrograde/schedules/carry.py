"""What the update of later turns does to the advantages of earlier ones, on reused samples."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from retrograde.data.rows import Row

Rollout = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Carry:
    """Multiplies the advantages of a rollout by how much likelier its later turns became.

    Source:
        SeeUPO, arXiv:2602.06554: M_t = pi_new(turn t) / pi_old(turn t) M_{t+1} after the update of
        turn t. `form="code"` takes the geometric mean over the turn's tokens instead of the
        product, bounds it, and bounds the accumulated product again.
    """

    form: Literal["paper", "code"] = "paper"
    low: float = 0.2
    high: float = 0.2

    def after(
        self,
        factors: Mapping[Rollout, float],
        rows: Sequence[Row],
        logp: Sequence[Sequence[float]],
    ) -> dict[Rollout, float]:
        """The factors once the turns of these rows were updated.

        Args:
            factors: those before; 1 where a rollout is not named.
            rows: the rows that were updated, one for each rollout.
            logp: log pi of their action tokens under the weights of now, in nats.
        """
        result = dict(factors)
        for row, now in zip(rows, logp, strict=True):
            gaps = [new - old for new, old in zip(now, row.behaviour_logp, strict=True)]
            before = result.get(row.rollout, 1.0)
            if self.form == "paper":
                result[row.rollout] = before * math.exp(sum(gaps))
            else:
                own = self._bounded(math.exp(sum(gaps) / len(gaps)))
                result[row.rollout] = self._bounded(before * own)
        return result

    def _bounded(self, ratio: float) -> float:
        return min(max(ratio, 1.0 - self.low), 1.0 + self.high)


def carried(rows: Sequence[Row], factors: Mapping[Rollout, float]) -> list[Row]:
    """Rows with their advantages multiplied by the factor of their rollout."""
    return [
        replace(row, advantage=_times(row, factors[row.rollout])) if row.rollout in factors else row
        for row in rows
    ]


def _times(row: Row, factor: float) -> float | tuple[float, ...]:
    each = row.advantage
    return tuple(a * factor for a in each) if isinstance(each, tuple) else each * factor

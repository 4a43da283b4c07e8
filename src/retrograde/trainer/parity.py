"""Whether sampler and learner agree on what was just sampled."""

from collections.abc import Sequence

from retrograde.data.rows import Row
from retrograde.trainer.ports import Learner

PROBED = 8
"""Rows compared in each update."""


def logp_difference(rows: Sequence[Row], learner: Learner) -> dict[str, float]:
    """Largest and mean |log pi - log mu| over the tokens of a few fresh rows, in nats.

    Both are the same weights on the same ids, so only arithmetic may differ: about 1e-6 in
    float32 within one process, about 1e-2 across engines in half precision.
    """
    probed = rows[:: max(1, len(rows) // PROBED)][:PROBED]
    gaps = [
        abs(now - then)
        for row, logp in zip(probed, learner.score(probed), strict=True)
        for now, then in zip(logp, row.behaviour_logp, strict=True)
    ]
    return {
        "sampling/logp_difference/max": max(gaps),
        "sampling/logp_difference/mean": sum(gaps) / len(gaps),
    }

"""Whether sampler and learner agree on what was just sampled, and how far an update led away."""

import math
from collections.abc import Sequence

from retrograde.data.rows import Row
from retrograde.trainer.scores import Scores

PROBED, PROBED_AFTER = 8, 32
"""Rows compared before and after each update."""
LARGEST = 700.0
"""Of a logarithm whose exponential is still a number."""


def probed(rows: Sequence[Row], number: int) -> Sequence[Row]:
    """A number of rows, taken evenly."""
    return rows[:: max(1, len(rows) // number)][:number]


def logp_difference(fresh: Sequence[Row], scores: Scores) -> dict[str, float]:
    """Largest and mean |log pi - log mu| over the tokens of a few fresh rows, in nats.

    Both are the same weights on the same ids, so only arithmetic may differ: about 1e-6 in
    float32 within one process, about 1e-2 across engines in half precision.
    """
    gaps = [
        abs(now - then)
        for row, logp in zip(fresh, scores, strict=True)
        for now, then in zip(logp, row.behaviour_logp, strict=True)
    ]
    return {
        "sampling/logp_difference/max": max(gaps),
        "sampling/logp_difference/mean": sum(gaps) / len(gaps),
    }


def moved(rows: Sequence[Row], scores: Scores) -> dict[str, float]:
    """How far the policy is from the one that sampled, after an update: `kl`, in nats a token.

    The mean of r - 1 - log r over the tokens of a few rows, r = pi/mu: an estimate of KL(mu || pi)
    that is never below 0.

    Source: Schulman, "Approximating KL divergence" (2020), the estimator k3.

    Raises:
        FloatingPointError: it is not finite: the weights are of no use any more.
    """
    logs = [
        now - then
        for row, logp in zip(rows, scores, strict=True)
        for now, then in zip(logp, row.behaviour_logp, strict=True)
    ]
    kl = sum(math.exp(min(log, LARGEST)) - 1 - log for log in logs) / len(logs)
    if not math.isfinite(kl):
        raise FloatingPointError(
            "after an update whose gradients were finite, the weights give log-probabilities that "
            "are not; lower the learning rate"
        )
    return {"kl": kl}

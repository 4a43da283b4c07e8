"""RTPO+: RTPO that goes on training the other turns while it improves one.

Source: RTPO, arXiv:2608.18682, with replay of the phases before; the replay is ours.
Differs from the source:
    Each phase trains on its own siblings and on those of the last K - 1 phases, under the
    log-probabilities recorded when they were sampled. Those rows are up to K - 1 updates old
    and turns already passed are trained again, so "nothing is reused" no longer holds. It
    stops the update of one turn from undoing another's under shared weights.
"""

from dataclasses import replace
from typing import Literal, Unpack

from retrograde.algorithms.algorithm import Algorithm, Pace
from retrograde.algorithms.rtpo import rtpo


def rtpo_plus(
    *,
    trunks: int = 1,
    siblings: int = 8,
    continuations: int = 1,
    max_rollouts: int | None = None,
    mean: Literal["turn", "sum"] = "turn",
    clip: float = 0.2,
    kl: float = 0.0,
    min_signal: int = 10,
    **steps: Unpack[Pace],
) -> Algorithm:
    """RTPO with replay of the last K - 1 phases.

    Args:
        trunks: complete rollouts of each task at whose boundaries siblings are forked.
        siblings: fresh answers at each boundary, at least 2.
        continuations: rollouts for each distinct state the siblings lead to; 0 for one each.
        max_rollouts: cap on the rollouts grown for one task; none by default.
        mean: over a turn's tokens, then siblings; sum leaves out the division by length.
        clip: bound of the token ratio on either side.
        kl: coefficient of the k3 penalty against the initial policy.
        min_signal: informative rows, replayed ones included, that a phase needs.
    """
    strict = rtpo(
        trunks=trunks,
        siblings=siblings,
        continuations=continuations,
        max_rollouts=max_rollouts,
        mean=mean,
        clip=clip,
        kl=kl,
        min_signal=min_signal,
        **steps,
    )
    return replace(strict, update=replace(strict.update, replay=True))

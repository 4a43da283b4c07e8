"""RTPO: improve the last turn first, on fresh continuations of a policy that already has.

Source: Li, Qiao, Cao, Hu 2026, arXiv:2608.18682, Algorithm 1 (appendix D for the values).
Differs from the source:
    The defaults are sound for small models with one shared network: 8 siblings, merging, warm-up,
    a least signal. `siblings=2, continuations=0, min_signal=1, warmup_steps=0, kl=0.02` is the
    paper, which states neither clip bound nor epochs.
"""

from typing import Literal, Unpack

from retrograde.algorithms.algorithm import Algorithm, Mean, Pace, PolicyLoss, Update
from retrograde.credit.sibling_mean import SiblingMean
from retrograde.rollouts.plans import ReverseTree


def rtpo(
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
    """Reverse-Turn Policy Optimization.

    Args:
        trunks: complete rollouts of each task at whose boundaries siblings are forked.
        siblings: fresh answers at each boundary (the paper's G - 1), at least 2.
        continuations: rollouts for each distinct state the siblings lead to; 0 for one each.
        max_rollouts: cap on the rollouts grown for one task.
        mean: over a turn's tokens, then siblings; sum leaves out the division by length.
        clip: bound of the token ratio on either side (epsilon).
        kl: coefficient of the k3 penalty against the initial policy (the paper's 0.02).
        min_signal: informative siblings a phase needs to take a step.
    """
    return Algorithm(
        grow=ReverseTree(trunks, siblings, continuations, max_rollouts),
        credit=SiblingMean(),
        loss=PolicyLoss(clip, clip, mean=Mean(mean), kl=kl),
        update=Update(
            every_round=True,
            minibatches=1,
            min_signal=min_signal,
            **steps,
        ),
    )

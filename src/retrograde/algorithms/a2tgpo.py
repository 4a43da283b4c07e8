"""A2TGPO: turns judged by how far they raised the probability of the right answer.

Source: arXiv:2605.06200.
Differs from the source:
    Groups are 8 rollouts; the paper takes 16. See `InformationGain` for the rest.
"""

from typing import Unpack

from retrograde.algorithms.algorithm import Algorithm, Chains, Steps, Update
from retrograde.credit.information_gain import InformationGain
from retrograde.data.offer import Offer
from retrograde.losses.policy import Level, Mean, PolicyLoss


def a2tgpo(
    *,
    rollouts: int = 8,
    alpha: float = 0.3,
    gamma: float = 1.0,
    clip_scale: float = 0.3,
    clip_low: float = 3e-3,
    clip_high: float = 4e-3,
    kl: float = 0.0,
    **steps: Unpack[Steps],
) -> Algorithm:
    """Turn-level credit by information gain, for environments with a right final answer.

    Args:
        rollouts: of each task (16 in the source; 8 is ours).
        alpha: weight of the gains beside the outcome.
        gamma: discount of later turns' gains.
        clip_scale: how far a turn's gain widens or narrows its clip bounds, below 1.
        clip_low: bound of a turn's ratio below 1.
        clip_high: bound of a turn's ratio above 1.
        kl: coefficient of the k3 penalty against the initial policy.
    """
    return Algorithm(
        grow=Chains(rollouts, least=2),
        credit=InformationGain(alpha, gamma, clip_scale),
        loss=PolicyLoss(clip_low, clip_high, ratio=Level.TURN, mean=Mean.ROLLOUT, kl=kl),
        update=Update(**steps),
        needs=(Offer.GOLD,),
    )

"""LEAP: who solves a task in fewer tries ranks higher; only tasks worth it get further tries.

Source: LEAP, arXiv:2608.01804.
Differs from the source: values marked (ours) were not to be found.
"""

from typing import Unpack

from retrograde.algorithms.algorithm import Algorithm, Mean, PolicyLoss, Steps, Update
from retrograde.credit.first_success import FirstSuccess
from retrograde.data.offer import Offer
from retrograde.rollouts.adaptive_turns import AdaptiveTurns


def leap(
    *,
    rollouts: int = 8,
    turns: int = 3,
    least_failing: int = 4,
    most_failing: int = 7,
    gamma: float = 0.5,
    clip: float = 0.2,
    kl: float = 0.0,
    **steps: Unpack[Steps],
) -> Algorithm:
    """Lean Environment-feedback via Adaptive Pruning.

    Args:
        rollouts: first tries of each task (G).
        turns: most tries of a rollout.
        least_failing: first tries that must fail for further ones (T_min; ours).
        most_failing: first tries that may fail for further ones (T_max; ours).
        gamma: what a try before the right one gets, as a share of what the next gets (ours).
        clip: bound of the token ratio on either side (ours).
        kl: coefficient of the k3 penalty against the initial policy (ours).
    """
    plan = AdaptiveTurns(rollouts, turns, least_failing, most_failing)
    loss = PolicyLoss(clip, clip, mean=Mean.TOKEN, kl=kl)
    needs = (Offer.ATTEMPTS, Offer.SCORES)
    return Algorithm(plan, FirstSuccess(gamma), loss, Update(**steps), needs=needs)

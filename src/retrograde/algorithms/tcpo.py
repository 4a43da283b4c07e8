"""TCPO: turns by the scores after them: looking back, looking ahead, and against other answers.

Source: TCPO, arXiv:2608.01667.
Differs from the source:
    Values marked (ours) were not to be found. Alternatives are for credit alone and not trained.
"""

from typing import Unpack

from retrograde.algorithms.algorithm import Algorithm, Mean, PolicyLoss, Steps, Update
from retrograde.credit.turn_score import TurnScore
from retrograde.data.offer import Offer
from retrograde.rollouts.counterfactual import Counterfactual


def tcpo(
    *,
    rollouts: int = 8,
    selected: int = 5,
    alternatives: int = 4,
    progress: float = 1.0,
    preserve: float = 0.2,
    regression: float = 1.0,
    hindsight: float = 1.0,
    counterfactual: float = 1.0,
    threshold: float = 1.0,
    gamma: float = 0.9,
    clip: float = 0.2,
    kl: float = 0.0,
    **steps: Unpack[Steps],
) -> Algorithm:
    """Turn-level Credit Policy Optimization.

    Args:
        rollouts: rollouts of each task (N).
        selected: turns of a task, most surprising first, that get alternatives (L).
        alternatives: other answers behind the same past, for each of them (M; ours).
        progress: weight of a new best score (ours).
        preserve: credit for keeping a success (ours).
        regression: weight of losing a success (ours).
        hindsight: weight of what turns without progress led to (ours).
        counterfactual: weight of a turn's score less its alternatives' (ours).
        threshold: least score of a success (tau; ours).
        gamma: factor for each turn before a turn (ours).
        clip: bound of the token ratio on either side (ours).
        kl: coefficient of the k3 penalty against the initial policy (ours).
    """
    weights = (progress, preserve, regression, hindsight, counterfactual)
    return Algorithm(
        grow=Counterfactual(rollouts, selected, alternatives),
        credit=TurnScore(*weights, threshold=threshold, gamma=gamma),
        loss=PolicyLoss(clip, clip, mean=Mean.TOKEN, kl=kl),
        update=Update(**steps),
        needs=(Offer.SCORES,),
    )

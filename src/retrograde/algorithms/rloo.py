"""RLOO: whole rollouts, each judged against the mean of the others.

Source: Ahmadian et al. 2024, arXiv:2402.14740, section 3.
Differs from the source:
    The penalty is a loss (k3), not a part of the reward. `clip` is verl's: a mean over tokens.
"""

from typing import Unpack

from retrograde.algorithms.algorithm import Algorithm, Chains, Pace, Update
from retrograde.credit.outcome import Outcome
from retrograde.losses.policy import Mean, PolicyLoss, Surrogate


def rloo(
    *,
    rollouts: int = 8,
    clip: float | None = None,
    kl: float = 0.0,
    minibatches: int = 1,
    **steps: Unpack[Pace],
) -> Algorithm:
    """REINFORCE with a leave-one-out baseline.

    Args:
        rollouts: rollouts of each task (k in the source), at least 2.
        clip: bound of the token ratio on either side; None for log pi without a ratio.
        kl: coefficient of the k3 penalty against the initial policy.
        minibatches: optimizer steps in a pass; without `clip` further steps are uncorrected.
    """
    plain = PolicyLoss(surrogate=Surrogate.UNWEIGHTED, mean=Mean.ROLLOUT_SUM, kl=kl)
    loss = plain if clip is None else PolicyLoss(clip, clip, mean=Mean.TOKEN, kl=kl)
    return Algorithm(
        Chains(rollouts, least=2), Outcome("others"), loss, Update(minibatches=minibatches, **steps)
    )

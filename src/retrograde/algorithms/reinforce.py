"""REINFORCE: every token of a rollout moves with the rollout's return.

Source:
    Williams 1992, "Simple statistical gradient-following algorithms", equation 8.
Differs from the source:
    Adam, with a bounded gradient. A second epoch or minibatch is off policy and not corrected.
"""

from typing import Literal, Unpack

from retrograde.algorithms.algorithm import Algorithm
from retrograde.credit.outcome import Outcome
from retrograde.losses.policy import Mean, PolicyLoss, Surrogate
from retrograde.rollouts.plans import Chains
from retrograde.schedules.steps import Pace
from retrograde.schedules.update import Update


def reinforce(
    *,
    rollouts: int = 8,
    baseline: Literal["none", "mean"] = "mean",
    minibatches: int = 1,
    **steps: Unpack[Pace],
) -> Algorithm:
    """Plain policy gradient.

    Args:
        rollouts: rollouts of each task.
        baseline: what is taken off the return: nothing, or the mean of the group.
        minibatches: optimizer steps in a pass; from the second on they are off policy.
        **steps: see `Pace`.
    """
    return Algorithm(
        grow=Chains(rollouts),
        credit=Outcome(baseline),
        loss=PolicyLoss(surrogate=Surrogate.UNWEIGHTED, mean=Mean.ROLLOUT_SUM),
        update=Update(minibatches=minibatches, **steps),
    )

"""Dr. GRPO: GRPO without its two biases, the standard deviation and the rollout's length.

Source:
    Liu et al. 2025, arXiv:2503.20783, section 3.2.
Differs from the source:
    The constant that sums are divided by is the paper's largest answer length; what a rollout of
    several turns may take is known to no algorithm, so it is an option.
"""

from typing import Unpack

from retrograde.algorithms.algorithm import Algorithm
from retrograde.credit.outcome import Outcome
from retrograde.losses.policy import Mean, PolicyLoss
from retrograde.rollouts.plans import Chains
from retrograde.schedules.steps import Steps
from retrograde.schedules.update import Update


def dr_grpo(
    *,
    rollouts: int = 8,
    length: float = 256.0,
    clip: float = 0.2,
    **steps: Unpack[Steps],
) -> Algorithm:
    """GRPO done right.

    Args:
        rollouts: rollouts of each task, at least 2.
        length: what a rollout's sum over tokens is divided by (ours), never its own length.
        clip: bound of the token ratio on either side.
        **steps: see `Steps`.
    """
    return Algorithm(
        grow=Chains(rollouts, least=2),
        credit=Outcome("mean"),
        loss=PolicyLoss(clip, clip, mean=Mean.ROLLOUT_SUM, length=length),
        update=Update(**steps),
    )

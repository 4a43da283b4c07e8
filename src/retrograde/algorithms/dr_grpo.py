"""Dr. GRPO: GRPO without its two biases, the standard deviation and the rollout's length.

Source: Liu et al. 2025, arXiv:2503.20783, section 3.2.
Differs from the source:
    The constant that sums are divided by is the paper's largest answer length; what a rollout of
    several turns may take is known to no algorithm, so it is an option.
"""

from typing import Unpack

from retrograde.algorithms.algorithm import Algorithm, Chains, Mean, PolicyLoss, Steps, Update
from retrograde.credit.outcome import Outcome


def dr_grpo(
    *,
    rollouts: int = 8,
    length: float = 256.0,
    clip: float = 0.2,
    kl: float = 0.0,
    **steps: Unpack[Steps],
) -> Algorithm:
    """GRPO done right.

    Args:
        rollouts: rollouts of each task, at least 2.
        length: what a rollout's sum over tokens is divided by (ours), never its own length.
        clip: bound of the token ratio on either side.
        kl: coefficient of the k3 penalty against the initial policy.
    """
    loss = PolicyLoss(clip, clip, mean=Mean.ROLLOUT_SUM, length=length, kl=kl)
    return Algorithm(Chains(rollouts, least=2), Outcome("mean"), loss, Update(**steps))

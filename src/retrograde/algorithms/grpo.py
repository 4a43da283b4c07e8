"""GRPO on the exact context of each turn: whole rollouts, judged within their group.

Source: Shao et al. 2024, arXiv:2402.03300, equations 3 and 4, without the KL penalty by default.
Differs from the source:
    Each turn is scored under the context it was sampled under, not under the flat history.
    The default mean is over tokens, as verl and TRL have it; `mean="rollout"` is the paper's.
    Groups are 8 rollouts; the paper takes 64.
"""

from typing import Literal, Unpack

from retrograde.algorithms.algorithm import Algorithm, Chains, Mean, PolicyLoss, Steps, Update
from retrograde.credit.group_relative import GroupRelative


def grpo(
    *,
    rollouts: int = 8,
    scale: bool = True,
    mean: Literal["token", "rollout"] = "token",
    clip: float = 0.2,
    kl: float = 0.0,
    **steps: Unpack[Steps],
) -> Algorithm:
    """Group Relative Policy Optimization.

    Args:
        rollouts: rollouts of each task (TRL's num_generations, verl's rollout.n).
        scale: divide the advantage by the group's standard deviation (scale_rewards).
        mean: what counts as one in the loss.
        clip: bound of the token ratio on either side (epsilon).
        kl: coefficient of the k3 penalty against the initial policy (beta).
    """
    return Algorithm(
        grow=Chains(rollouts, least=2),
        credit=GroupRelative(scale),
        loss=PolicyLoss(clip, clip, mean=Mean(mean), kl=kl),
        update=Update(**steps),
    )

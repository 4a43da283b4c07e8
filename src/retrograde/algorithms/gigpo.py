"""GiGPO: whole rollouts within their group, and single turns among those that were told the same.

Source:
    Feng et al. 2025, arXiv:2505.10978, equations 3 to 8; the discount is that of its scripts.
Differs from the source:
    No KL penalty by default, and none for actions that mean nothing: rewards are the
    environment's. The ratio is of tokens, as in the code; the paper writes one for each action.
"""

from typing import Literal, Unpack

from retrograde.algorithms.algorithm import Algorithm
from retrograde.credit.anchor import AnchorRelative
from retrograde.losses.policy import Mean, PolicyLoss
from retrograde.rollouts.plans import Chains
from retrograde.schedules.steps import Steps
from retrograde.schedules.update import Update


def gigpo(
    *,
    rollouts: int = 8,
    omega: float = 1.0,
    gamma: float = 0.95,
    norm: Literal["mean_std", "mean"] = "mean_std",
    similarity: float | None = None,
    mean: Literal["turn", "token"] = "turn",
    clip: float = 0.2,
    kl: float = 0.0,
    **steps: Unpack[Steps],
) -> Algorithm:
    """Group-in-Group Policy Optimization.

    Args:
        rollouts: rollouts of each task (N).
        omega: weight of the advantage among turns that were told the same.
        gamma: discount of the returns of turns.
        norm: what both advantages are freed of (mean_std_norm, mean_norm).
        similarity: least likeness of observations that count as the same; None for equality.
        mean: what counts as one in the loss: the paper's turn or the code's token.
        clip: bound of the token ratio on either side (epsilon).
        kl: coefficient of the k3 penalty against the initial policy (beta; the code's 0.01).
        **steps: see `Steps`.
    """
    return Algorithm(
        grow=Chains(rollouts, least=2),
        credit=AnchorRelative(omega, gamma, norm == "mean_std", similarity),
        loss=PolicyLoss(clip, clip, mean=Mean(mean), kl=kl),
        update=Update(**steps),
    )

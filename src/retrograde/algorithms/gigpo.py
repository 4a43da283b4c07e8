"""GiGPO: whole rollouts within their group, and single turns among those that were told the same.

Source: Feng et al. 2025, arXiv:2505.10978, equations 3 to 8; the discount is that of its scripts.
Differs from the source:
    No KL penalty by default, none for actions that mean nothing. Token ratios, as in the code.
"""

from typing import Literal, Unpack

from retrograde.algorithms.algorithm import Algorithm, Chains, Mean, PolicyLoss, Steps, Update
from retrograde.credit.anchor import AnchorRelative


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
    """
    credit = AnchorRelative(omega, gamma, norm == "mean_std", similarity)
    loss = PolicyLoss(clip, clip, mean=Mean(mean), kl=kl)
    return Algorithm(Chains(rollouts, least=2), credit, loss, Update(**steps))

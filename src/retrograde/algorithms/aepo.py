"""AEPO: chains and branches in proportion to entropy, and credit weighted by entropy.

Source: Dong et al. 2025, arXiv:2510.14545, and its code.
Differs from the source:
    8 rollouts; the paper has 16. The rollout that measures a task is one of them. See
    `BalancedEntropy` for how the budget is split, `EntropyWeighted` for the advantage.
"""

from typing import Unpack

from retrograde.algorithms.algorithm import Algorithm, Mean, PolicyLoss, Steps, Surrogate, Update
from retrograde.credit.entropy_weighted import EntropyWeighted
from retrograde.credit.group_relative import GroupRelative
from retrograde.rollouts.tool_entropy import BalancedEntropy, Probe


def aepo(
    *,
    rollouts: int = 8,
    beta: float = 0.2,
    tau: float = 0.5,
    penalty: float = 0.05,
    probe: int = 20,
    root_probe: int = 50,
    entropy_scale: float = 5.0,
    entropy_weight: float = 0.2,
    clip: float = 0.2,
    kl: float = 0.0,
    **steps: Unpack[Steps],
) -> Algorithm:
    """Agentic Entropy-Balanced Policy Optimization.

    Args:
        rollouts: of each task, branches included (k; 8 is ours).
        beta: weight of the rise in entropy in the branching rule.
        tau: threshold of the branching rule.
        penalty: for each round in a row in which the task branched.
        probe: first tokens of a turn behind a tool result that its entropy is summed over.
        root_probe: the same for the first turn, where the budget is split.
        entropy_scale: nats that count as 1; log |V| in the source (ours: a small vocabulary's).
        entropy_weight: of a token's standardised entropy in its advantage.
        clip: bound of the token ratio; above it the value stays and the gradient goes on.
        kl: coefficient of the k3 penalty against the initial policy.
    """
    measured = Probe(probe, entropy_scale)
    return Algorithm(
        grow=BalancedEntropy(rollouts, beta, tau, penalty, measured, root_probe),
        credit=GroupRelative(),
        loss=PolicyLoss(clip, clip, mean=Mean.TOKEN, kl=kl, surrogate=Surrogate.SOFTLY_CLIPPED),
        update=Update(**steps),
        normalise=EntropyWeighted(entropy_weight),
    )

"""ARPO: chains, and branches where entropy rose behind a tool result.

Source: Dong et al. 2025, arXiv:2507.19849, Algorithm 1, appendix C.2 for the values.
Differs from the source:
    8 rollouts of which 4 begin as chains; the paper has 16 and 8. `advantage="soft"` is the
    paper's default. See `ToolEntropy` and `Probe` for how entropy is measured.
"""

from typing import Literal, Unpack

from retrograde.algorithms.algorithm import Algorithm, Mean, PolicyLoss, Steps, Update
from retrograde.credit.group_relative import GroupRelative
from retrograde.credit.shared_prefix import SharedPrefix
from retrograde.rollouts.tool_entropy import Probe, ToolEntropy


def arpo(
    *,
    rollouts: int = 8,
    initial: int = 4,
    branching: Literal["paper", "code"] = "paper",
    alpha: float = 0.5,
    beta: float = 0.2,
    tau: float = 0.5,
    probe: int = 20,
    entropy_scale: float = 5.0,
    advantage: Literal["soft", "hard"] = "soft",
    clip: float = 0.2,
    kl: float = 0.0,
    **steps: Unpack[Steps],
) -> Algorithm:
    """Agentic Reinforced Policy Optimization.

    Args:
        rollouts: of each task, branches included (M; 8 is ours).
        initial: rollouts that start from the task (N; 4 is ours).
        branching: alpha + beta dH > tau; or, as in the code, clip(U - beta dH, 0, 1) <= tau.
        alpha: base of the branching rule.
        beta: weight of the rise in entropy dH.
        tau: threshold of the branching rule.
        probe: first tokens of a turn that its entropy is summed over.
        entropy_scale: nats that count as 1; log |V| in the source (ours: a small vocabulary's).
        advantage: each visit its rollout's own; or the mean of all rollouts through the turn.
        clip: bound of the token ratio on either side.
        kl: coefficient of the k3 penalty against the initial policy.
    """
    measured = Probe(probe, entropy_scale)
    return Algorithm(
        grow=ToolEntropy(rollouts, initial, branching, alpha, beta, tau, measured),
        credit=GroupRelative() if advantage == "soft" else SharedPrefix("mean"),
        loss=PolicyLoss(clip, clip, mean=Mean.TOKEN, kl=kl),
        update=Update(**steps),
    )

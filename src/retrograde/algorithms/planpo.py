"""PlanPO: successes in fewer turns, and of fewer tokens a turn, are better; failures are failures.

Source: PlanPO, arXiv:2608.17289, equations 4 to 6 and the text for the values.
Differs from the source:
    The ratio is of tokens, as in the framework it builds on; it writes one for each answer. No KL
    penalty by default. The mean over the turns of a minibatch is over all of them.
"""

from typing import Literal, Unpack

from retrograde.algorithms.algorithm import Algorithm, Chains, Mean, PolicyLoss, Steps, Update
from retrograde.credit.brevity import Brevity


def planpo(
    *,
    rollouts: int = 8,
    group: Literal["turn", "flat"] = "turn",
    scale: bool = True,
    reward: float = 10.0,
    success: float = 1.0,
    alpha_initial: float = 0.1,
    alpha_final: float = 0.05,
    clip: float = 0.2,
    kl: float = 0.0,
    **steps: Unpack[Steps],
) -> Algorithm:
    """Group Planning-aware Policy Optimization.

    Args:
        rollouts: rollouts of each task (N).
        group: answers are judged among those of the same turn (equations) or of the task (prose).
        scale: divide both advantages by their standard deviation (F_norm).
        reward: of a success, before it is divided by turns or tokens (R).
        success: least return of a success, where the environment gives no scores.
        alpha_initial: weight of the advantage of answers at the start of the run.
        alpha_final: and at its end.
        clip: bound of the token ratio on either side.
        kl: coefficient of the k3 penalty against the initial policy (the paper's 0.01).
    """
    return Algorithm(
        grow=Chains(rollouts, least=2),
        credit=Brevity(group, scale, reward, success, alpha_initial, alpha_final),
        loss=PolicyLoss(clip, clip, mean=Mean.TURN, kl=kl),
        update=Update(**steps),
    )

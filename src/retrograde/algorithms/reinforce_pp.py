"""REINFORCE++: returns to go, whitened over all tokens of the update, under PPO's clip.

Source: Hu et al. 2025, arXiv:2501.03262.
Differs from the source:
    The penalty is a loss (k3), not a part of the reward. `baseline="group"` is the paper's
    REINFORCE++-baseline: the return less the group's mean, then whitened, for all turns alike.
"""

from typing import Literal, Unpack

from retrograde.algorithms.algorithm import Algorithm, Chains, Mean, PolicyLoss, Steps, Update
from retrograde.credit.outcome import Outcome
from retrograde.credit.to_go import ReturnToGo
from retrograde.credit.whitening import Whitened


def reinforce_pp(
    *,
    rollouts: int = 8,
    baseline: Literal["none", "group"] = "none",
    clip: float = 0.2,
    kl: float = 0.0,
    **steps: Unpack[Steps],
) -> Algorithm:
    """REINFORCE with advantages normalised over the whole update.

    Args:
        rollouts: rollouts of each task.
        baseline: what is taken off before whitening: nothing, or the mean of the group.
        clip: bound of the token ratio on either side.
        kl: coefficient of the k3 penalty against the initial policy.
    """
    group = baseline == "group"
    return Algorithm(
        grow=Chains(rollouts, least=2 if group else 1),
        credit=Outcome("mean") if group else ReturnToGo(),
        loss=PolicyLoss(clip, clip, mean=Mean.TOKEN, kl=kl),
        update=Update(**steps),
        normalise=Whitened(),
    )

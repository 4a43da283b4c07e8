"""GRPO that scores tokens under the flat history, as most trainers do: the honest control.

Under a context policy that keeps everything it is GRPO. Under any other, it trains a policy
that never acted.

Source: RTPO, arXiv:2608.18682, section 3.1 and equation 10, where it is what is criticised.
Differs from the source: The paper describes two different mistakes as one; `behaviour` says which.
"""

from dataclasses import replace
from typing import Literal, Unpack

from retrograde.algorithms.algorithm import Algorithm, Steps, View
from retrograde.algorithms.grpo import grpo


def grpo_flat(
    *,
    behaviour: Literal["recomputed", "sampled"] = "recomputed",
    rollouts: int = 8,
    scale: bool = True,
    mean: Literal["token", "rollout"] = "token",
    clip: float = 0.2,
    **steps: Unpack[Steps],
) -> Algorithm:
    """GRPO on flat histories; a control, not a method.

    Args:
        behaviour: the ratio's denominator: recomputed on the flat history (M1, verl's default;
            the mistake cannot be seen in the ratio), or as sampled on the true context (M2).
        rollouts: rollouts of each task.
        scale: divide the advantage by the group's standard deviation.
        mean: what counts as one in the loss.
        clip: bound of the token ratio on either side.
    """
    view = View.FLAT_RECOMPUTED if behaviour == "recomputed" else View.FLAT_SAMPLED
    exact = grpo(rollouts=rollouts, scale=scale, mean=mean, clip=clip, **steps)
    return replace(exact, view=view)

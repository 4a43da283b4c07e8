"""PPO with a learned critic: generalized advantages of tokens, whitened over the update.

Source: Schulman et al. 2017, arXiv:1707.06347, equations 7, 9 and 11; as verl has it.
Differs from the source:
    No entropy bonus; no dual clip by default, where verl has 3. Advantages pass observations
    of a rollout of several turns unchanged.
"""

from typing import Literal, Unpack

from retrograde.algorithms.algorithm import Algorithm, Chains, Mean, PolicyLoss, Steps, Update
from retrograde.credit.gae import GAE
from retrograde.credit.whitening import Whitened
from retrograde.losses.value import ValueLoss


def ppo(
    *,
    rollouts: int = 8,
    critic: Literal["own", "shared"] = "own",
    critic_speed: float = 10.0,
    value_coefficient: float = 0.5,
    value_clip: float | None = 0.5,
    gamma: float = 1.0,
    lam: float = 1.0,
    clip: float = 0.2,
    dual_clip: float | None = None,
    kl: float = 0.0,
    **steps: Unpack[Steps],
) -> Algorithm:
    """Proximal Policy Optimization.

    Args:
        rollouts: rollouts of each task.
        critic: a copy of the initial transformer with a head, or a head on the policy's own.
        critic_speed: learning rate of an own critic, as a multiple of the policy's (verl's 10).
        value_coefficient: weight of a shared critic's loss (c_1; ours).
        value_clip: how far values move in one update (cliprange_value); None for any way.
        gamma: discount of a token.
        lam: how far advantages look ahead, in tokens: 0 for one, 1 for all.
        clip: bound of the token ratio on either side (epsilon).
        dual_clip: bound of the loss of a token with a negative advantage; verl's is 3.
        kl: coefficient of the k3 penalty against the initial policy.
    """
    shared = critic == "shared"
    return Algorithm(
        grow=Chains(rollouts),
        credit=GAE(gamma, lam),
        loss=PolicyLoss(clip, clip, mean=Mean.TOKEN, dual_clip=dual_clip, kl=kl),
        update=Update(**steps),
        normalise=Whitened(),
        critic=ValueLoss(
            clip=value_clip, shared=shared, coefficient=value_coefficient, speed=critic_speed
        ),
    )

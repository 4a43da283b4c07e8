"""Turn-PPO: states are turns; a critic values each, and its tokens share one advantage.

Source: arXiv:2512.17008: advantages, ratio and clip of turns; a critic that learns faster.
Differs from the source:
    The paper does not say how a turn's ratio is made of its tokens': it is their geometric mean.
    Advantages are whitened with each turn counted once, and the critic is 5 times as fast (ours).
"""

from typing import Literal, Unpack

from retrograde.algorithms.algorithm import Algorithm, Chains, Steps, Update
from retrograde.credit.gae import GAE
from retrograde.credit.whitening import Whitened
from retrograde.losses.policy import Level, Mean, PolicyLoss
from retrograde.losses.value import ValueLoss


def turn_ppo(
    *,
    rollouts: int = 8,
    critic: Literal["own", "shared"] = "own",
    critic_speed: float = 5.0,
    value_coefficient: float = 0.5,
    value_clip: float | None = 0.5,
    gamma: float = 0.99,
    lam: float = 0.9,
    clip: float = 0.2,
    kl: float = 0.0,
    **steps: Unpack[Steps],
) -> Algorithm:
    """Proximal policy optimization over turns.

    Args:
        rollouts: rollouts of each task.
        critic: a copy of the initial transformer with a head, or a head on the policy's own.
        critic_speed: learning rate of an own critic, as a multiple of the policy's (ours).
        value_coefficient: weight of a shared critic's loss (ours).
        value_clip: how far values move in one update (ours); None for any way.
        gamma: discount of a turn.
        lam: how far advantages look ahead, in turns: 0 for one, 1 for all.
        clip: bound of the turn ratio on either side (ours).
        kl: coefficient of the k3 penalty against the initial policy.
    """
    shared = critic == "shared"
    return Algorithm(
        grow=Chains(rollouts),
        credit=GAE(gamma, lam, turns=True),
        loss=PolicyLoss(clip, clip, ratio=Level.TURN, mean=Mean.TURN, kl=kl),
        update=Update(**steps),
        normalise=Whitened(turns=True),
        critic=ValueLoss(Level.TURN, value_clip, shared, value_coefficient, critic_speed),
    )

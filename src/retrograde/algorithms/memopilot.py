"""MemoPilot's multi-turn GRPO: each turn by the next turn's reward, among turns of its index.

Source: MemoPilot, arXiv:2606.08656.
Differs from the source:
    Group size, clip bound and KL coefficient are ours: it states none. Who plays and who writes
    memos is the environment's business: the trained policy's turn is the memo.
"""

from typing import Unpack

from retrograde.algorithms.algorithm import Algorithm, Chains, Mean, PolicyLoss, Steps, Update
from retrograde.credit.next_reward import NextReward
from retrograde.data.offer import Offer


def memopilot(
    *, rollouts: int = 8, delay: int = 1, clip: float = 0.2, kl: float = 0.0, **steps: Unpack[Steps]
) -> Algorithm:
    """Multi-turn GRPO with one-step returns.

    Args:
        rollouts: rollouts of each task (ours).
        delay: turns until a turn's words are paid; 0 where its own reward follows from them.
        clip: bound of the token ratio on either side (ours).
        kl: coefficient of the k3 penalty against the initial policy (ours).
    """
    return Algorithm(
        grow=Chains(rollouts, least=2),
        credit=NextReward(delay),
        loss=PolicyLoss(clip, clip, mean=Mean.ROLLOUT_TURNS, kl=kl),
        update=Update(**steps),
        needs=(Offer.TURN_REWARDS,),
    )

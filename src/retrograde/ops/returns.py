"""What the states of one rollout are worth, from its rewards and a critic's values.

A state is what is seen before an action token, or before a turn; observations are no states, so
nothing is said of their tokens and what is carried back passes them unchanged.

Shapes: S states of one rollout, first to last.
"""

import torch
from jaxtyping import Float
from torch import Tensor


def gae(
    reward_S: Float[Tensor, " S"], value_S: Float[Tensor, " S"], gamma: float, lam: float
) -> Float[Tensor, " S"]:
    """Generalized advantage estimates; what comes after the last state is worth 0.

    A(s) = delta(s) + gamma lam A(s + 1) with delta(s) = r(s) + gamma V(s + 1) - V(s).

    Args:
        reward_S: what was earned by acting in each state.
        value_S: what the critic said of each state.
        gamma: discount of a state's successor, 0 to 1.
        lam: how far estimates look ahead: 0 for one step, 1 for all that came.

    Source:
        Schulman et al. 2015, arXiv:1506.02438, equation 16.
    """
    rewards, values = [float(r) for r in reward_S], [float(v) for v in value_S]
    advantages = [0.0] * len(values)
    after = advantage = 0.0
    for s in reversed(range(len(values))):
        delta = rewards[s] + gamma * after - values[s]
        advantage = delta + gamma * lam * advantage
        advantages[s], after = advantage, values[s]
    return torch.tensor(advantages, dtype=value_S.dtype, device=value_S.device)

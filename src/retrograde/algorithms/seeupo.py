"""SeeUPO: the last turn's update first, then the one before, on the same rollouts.

Source: SeeUPO, arXiv:2602.06554: virtual agents, one for each turn, updated in reverse order.
Differs from the source:
    Exact contexts; the source trains on the flat history. It does not state how advantages are
    normalised (see `BatchScale`) nor how many steps a turn gets. No KL penalty by default.
"""

from typing import Literal, Unpack

from retrograde.algorithms.algorithm import Algorithm, Chains, Steps, Update
from retrograde.credit.batch_scale import BatchScale
from retrograde.credit.group_relative import GroupRelative
from retrograde.losses.policy import Level, Mean, PolicyLoss
from retrograde.schedules.carry import Carry


def seeupo(
    *,
    rollouts: int = 8,
    form: Literal["paper", "code"] = "paper",
    clip: float = 0.2,
    kl: float = 0.0,
    **steps: Unpack[Steps],
) -> Algorithm:
    """Sequence-level Sequential Update Policy Optimization.

    Args:
        rollouts: rollouts of each task.
        form: the code bounds what earlier turns inherit to 0.8 to 1.2, and advantages to 3.
        clip: bound of the turn ratio, a geometric mean over its tokens, on either side.
        kl: coefficient of the k3 penalty against the initial policy (the code's 0.002).
    """
    return Algorithm(
        grow=Chains(rollouts, least=2),
        credit=GroupRelative(scale=False),
        loss=PolicyLoss(clip, clip, ratio=Level.TURN, mean=Mean.TURN, kl=kl),
        update=Update(last_turn_first=True, carry=Carry(form), **steps),
        normalise=BatchScale(bound=3.0 if form == "code" else None),
    )

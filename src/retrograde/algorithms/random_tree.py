"""Random tree: AT2PO's tree with turns drawn by chance, and GRPO on its leaves; the control.

`loss="turn"` and `expansion="entropy"` add AT2PO's parts one by one; `at2po` is the last step.

Source:
    AT2PO, arXiv:2601.04767, ablation table, first row.
Differs from the source:
    The source does not say how it draws; here it is among `at2po`'s candidates.
"""

from typing import Literal, Unpack

from retrograde.algorithms.algorithm import Algorithm
from retrograde.algorithms.atpo import atpo
from retrograde.credit.turn_value import TurnValue
from retrograde.losses.policy import Mean, PolicyLoss
from retrograde.rollouts.entropy_tree import EntropyTree
from retrograde.schedules.steps import Steps
from retrograde.schedules.update import Update


def random_tree(
    *,
    chains: int = 4,
    branches: int = 2,
    expansions: int = 2,
    expansion: Literal["random", "entropy"] = "random",
    loss: Literal["token", "turn"] = "token",
    clip: float = 0.2,
    **steps: Unpack[Steps],
) -> Algorithm:
    """GRPO on the leaves of a tree that grew by chance.

    Args:
        chains: first rollouts of each task.
        branches: turns answered anew in an expansion.
        expansions: how often.
        expansion: choose turns by chance, or by uncertainty.
        loss: GRPO's, which clips each token, or AT2PO's with its own bounds.
        clip: bound of the token ratio on either side, for loss=token.
        **steps: see `Steps`.
    """
    return Algorithm(
        grow=EntropyTree(chains, branches, expansions, expansion=expansion),
        credit=TurnValue(credit="outcome"),
        loss=atpo().loss if loss == "turn" else PolicyLoss(clip, clip, mean=Mean.ROLLOUT),
        update=Update(**steps),
    )

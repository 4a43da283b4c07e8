"""Random tree: AT2PO's tree with turns drawn by chance, and GRPO on its leaves; the control.

`loss="turn"` and `expansion="entropy"` add AT2PO's parts one by one; `at2po` is the last step.

Source: AT2PO, arXiv:2601.04767, ablation table, first row.
Differs from the source:
    The shape of the tree is `at2po`'s here. The source does not say how it draws.
"""

from dataclasses import replace
from typing import Literal, Unpack

from retrograde.algorithms.algorithm import Algorithm, Mean, PolicyLoss, Steps
from retrograde.algorithms.at2po import at2po


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
    """
    tree = at2po(
        chains=chains,
        branches=branches,
        expansions=expansions,
        expansion=expansion,
        credit="outcome",
        **steps,
    )
    if loss == "turn":
        return tree
    return replace(tree, loss=PolicyLoss(clip, clip, mean=Mean.ROLLOUT))

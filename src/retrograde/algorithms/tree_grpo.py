"""Tree-GRPO: chains continued anew from random nodes; rollouts judged in their tree and task.

Source:
    Tree-GRPO, arXiv:2509.21240; shape and clipping from the published scripts.
Differs from the source:
    The code trains on decoded text encoded again, which AT2PO (appendix C) blames for its
    collapse; here it is what was sampled. No entropy bonus. See `ChanceTree`, `TreeRelative`.
"""

from typing import Unpack

from retrograde.algorithms.algorithm import Algorithm
from retrograde.credit.tree_relative import TreeRelative
from retrograde.losses.policy import Mean, PolicyLoss
from retrograde.rollouts.chance_tree import ChanceTree
from retrograde.schedules.steps import Steps
from retrograde.schedules.update import Update


def tree_grpo(
    *,
    trees: int = 2,
    nodes: int = 2,
    iterations: int = 1,
    keep: int = 3,
    clip: float = 0.2,
    dual_clip: float = 3.0,
    kl: float = 0.0,
    **steps: Unpack[Steps],
) -> Algorithm:
    """Group Relative Policy Optimization on trees of turns.

    Args:
        trees: first rollouts of each task, m.
        nodes: nodes of each tree continued in an iteration, n.
        iterations: how often, l.
        keep: rollouts of each tree that are kept, k, drawn by chance.
        clip: bound of the token ratio on either side.
        dual_clip: bound of a bad token's loss, as a multiple of its advantage.
        kl: coefficient of the k3 penalty against the initial policy (the paper's 0.001).
        **steps: see `Steps`.
    """
    return Algorithm(
        grow=ChanceTree(trees, nodes, iterations),
        credit=TreeRelative(keep),
        loss=PolicyLoss(clip, clip, mean=Mean.TOKEN, kl=kl, dual_clip=dual_clip),
        update=Update(**steps),
    )

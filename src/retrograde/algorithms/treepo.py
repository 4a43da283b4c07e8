"""TreePO: rollouts grown side by side from shared pasts; each judged at every past it shares.

Source: TreePO, arXiv:2508.17445, Algorithm 1 and the tree-based advantage.
Differs from the source:
    No dynamic sampling: a task whose rollouts all end alike is not replaced. The whitening
    gives its tokens an advantage all the same, as it does in the source without the filter.
    See `SegmentTree` and `PrefixMean`.
"""

from typing import Literal, Unpack

from retrograde.algorithms.algorithm import Algorithm, Mean, PolicyLoss, Steps, Update
from retrograde.credit.prefix_mean import PrefixMean
from retrograde.credit.whitening import Whitened
from retrograde.rollouts.segment_tree import SegmentTree


def treepo(
    *,
    width: int = 8,
    branching: int = 2,
    first_least: int = 2,
    first_most: int = 4,
    weighting: Literal["average", "size"] = "average",
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    dual_clip: float = 10.0,
    **steps: Unpack[Steps],
) -> Algorithm:
    """Tree-based Policy Optimization.

    Args:
        width: rollouts of each task (ours; the paper's 16).
        branching: how often a rollout under way is continued while there are fewer.
        first_least: fewest first turns of a task; chance says how many.
        first_most: most first turns of a task (ours; the paper's 8).
        weighting: of the pasts a rollout shares: all alike, or by how many share them.
        clip_low: bound of the token ratio below.
        clip_high: bound of the token ratio above.
        dual_clip: bound of a bad token's loss, as a multiple of its advantage.
    """
    return Algorithm(
        grow=SegmentTree(width, branching, first_least, first_most),
        credit=PrefixMean(weighting),
        loss=PolicyLoss(clip_low, clip_high, mean=Mean.TOKEN, dual_clip=dual_clip),
        update=Update(**steps),
        normalise=Whitened(),
    )

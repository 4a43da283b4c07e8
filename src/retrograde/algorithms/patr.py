"""PATR: branches stop at checkpoints, where scores prune some and multiply others.

Source: arXiv:2607.15610, known from notes; no code is published.
Differs from the source:
    Scores are the environment's own. A checkpoint every 2 turns and loops of 4 are for episodes of
    4 to 8 turns; the paper has 5 (FrozenLake) or 13 turns, and 6. `shared="share"` is an
    ablation: a turn weighs the same however many leaves share it; the paper counts it for each.
"""

from typing import Literal, Unpack

from retrograde.algorithms.algorithm import Algorithm, Mean, PolicyLoss, Steps, Update
from retrograde.credit.group_relative import GroupRelative
from retrograde.credit.shared_prefix import SharedPrefix
from retrograde.data.offer import Offer
from retrograde.rollouts.checkpoints import Checkpoints


def patr(
    *,
    branches: int = 4,
    every: int = 2,
    expand: int = 2,
    children: int = 2,
    margin: float = 0.5,
    repeats: int = 4,
    max_turns: int | None = 64,
    shared: Literal["each", "share"] = "each",
    clip: float = 0.2,
    kl: float = 0.0,
    **steps: Unpack[Steps],
) -> Algorithm:
    """Process-Scorer Guided Adaptive Tree Rollout; scores steer growth and never enter credit.

    Args:
        branches: rollouts of each task to begin with (B0).
        every: turns between checkpoints (K; 2 is ours).
        expand: best branches that are replaced by children (top-k).
        children: of each of those, from the same state (M).
        margin: below the median by more than this, a branch is pruned (alpha).
        repeats: pruned after so many equal actions in a row (Theta; 4 is ours).
        max_turns: cap on the turns of a task; 8 times the longest episode (64 is ours), or None.
        shared: a shared turn counts for each leaf, or one over their number.
        clip: bound of the token ratio on either side.
        kl: coefficient of the k3 penalty against the initial policy.
    """
    return Algorithm(
        grow=Checkpoints(branches, every, expand, children, margin, repeats, max_turns),
        credit=GroupRelative() if shared == "each" else SharedPrefix("share"),
        loss=PolicyLoss(clip, clip, mean=Mean.ROLLOUT, kl=kl),
        update=Update(**steps),
        needs=(Offer.SCORES,),
    )

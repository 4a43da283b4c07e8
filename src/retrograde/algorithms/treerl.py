"""TreeRL: chains forked where the policy was least certain; each turn judged on the tree.

Source:
    TreeRL, arXiv:2506.11902; level and scaling from the published code.
Differs from the source:
    Forks stand between turns, not inside one at a token. A last turn is not forked, as the code
    masks what follows "answer". Temperature 1, not 1.2. See `EntropyTree` and `LocalGlobal`.
"""

from typing import Literal, Unpack

from retrograde.algorithms.algorithm import Algorithm
from retrograde.credit.local_global import LocalGlobal
from retrograde.losses.policy import Mean, PolicyLoss, Surrogate
from retrograde.rollouts.entropy_tree import EntropyTree
from retrograde.schedules.steps import Steps
from retrograde.schedules.update import Update


def treerl(
    *,
    chains: int = 6,
    branches: int = 2,
    expansions: int = 1,
    answers: int = 2,
    surrogate: Literal["unweighted", "clipped"] = "unweighted",
    clip_low: float = 0.2,
    clip_high: float = 0.26,
    **steps: Unpack[Steps],
) -> Algorithm:
    """REINFORCE on entropy-guided trees.

    Args:
        chains: first rollouts of each task, M, a tree each.
        branches: turns of each tree answered anew in an expansion, N.
        expansions: how often, L.
        answers: fresh answers for each turn chosen, T.
        surrogate: log pi (the paper's REINFORCE), or a clipped ratio (the code).
        clip_low: bound of the token ratio below, for surrogate=clipped (the code's).
        clip_high: bound above.
        **steps: see `Steps`.
    """
    return Algorithm(
        grow=EntropyTree(chains, branches, expansions, answers, penalty=0.0, apart=True),
        credit=LocalGlobal(),
        loss=PolicyLoss(clip_low, clip_high, mean=Mean.ROLLOUT, surrogate=Surrogate(surrogate)),
        update=Update(**steps),
    )

"""TreeRL: chains forked where the policy was least certain; each turn judged on the tree.

Source: TreeRL, arXiv:2506.11902; level and scaling from the published code.
Differs from the source:
    Forks stand between turns, not inside an answer at a token, so the uncertainty is a turn's.
    An answer that ends a rollout is not forked, as the source masks what follows "answer".
    Temperature 1, not 1.2. The code's bounds are clip_low=0.2, clip_high=0.26. See `LocalGlobal`.
"""

from typing import Literal, Unpack

from retrograde.algorithms.algorithm import Algorithm, Mean, PolicyLoss, Steps, Surrogate, Update
from retrograde.credit.local_global import LocalGlobal
from retrograde.rollouts.entropy_tree import EntropyTree


def treerl(
    *,
    chains: int = 2,
    branches: int = 2,
    expansions: int = 1,
    answers: int = 2,
    surrogate: Literal["unweighted", "clipped"] = "unweighted",
    clip_low: float = 0.2,
    clip_high: float = 0.26,
    kl: float = 0.0,
    **steps: Unpack[Steps],
) -> Algorithm:
    """REINFORCE on entropy-guided trees.

    Args:
        chains: first rollouts of each task, M, a tree each (ours; the paper's 6).
        branches: turns of each tree answered anew in an expansion, N.
        expansions: how often, L.
        answers: fresh answers for each turn chosen, T.
        surrogate: log pi (the paper's REINFORCE), or a clipped ratio (the code).
        clip_low: bound of the token ratio below, for surrogate=clipped.
        clip_high: bound above.
        kl: coefficient of the k3 penalty against the initial policy.
    """
    return Algorithm(
        grow=EntropyTree(chains, branches, expansions, answers, penalty=0.0, apart=True),
        credit=LocalGlobal(),
        loss=PolicyLoss(
            clip_low, clip_high, mean=Mean.ROLLOUT, kl=kl, surrogate=Surrogate(surrogate)
        ),
        update=Update(**steps),
    )

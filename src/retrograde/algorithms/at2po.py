"""AT2PO: answer uncertain turns anew, value each turn by its tree, clip each turn as one.

The ladder of its ablation: `random_tree`; `random_tree --algorithm.loss turn`; `random_tree
--algorithm.loss turn --algorithm.expansion entropy`; `at2po`.

Source:
    AT2PO, arXiv:2601.04767, Algorithm 1; values from the published code.
Differs from the source:
    A log ratio is not cut off at 10. See `EntropyTree` and `TurnValue`.
"""

from typing import Literal, Unpack

from retrograde.algorithms.algorithm import Algorithm
from retrograde.credit.turn_value import TurnValue
from retrograde.losses.policy import Level, Mean, PolicyLoss
from retrograde.rollouts.entropy_tree import EntropyTree
from retrograde.schedules.steps import Steps
from retrograde.schedules.update import Update


def at2po(
    *,
    chains: int = 4,
    branches: int = 2,
    expansions: int = 2,
    expansion: Literal["entropy", "random"] = "entropy",
    penalty: float = 0.05,
    scoring: Literal["paper", "code"] = "paper",
    child_weights: Literal["share", "softmax", "mean", "leaf_mean"] = "share",
    credit: Literal["value", "local", "global", "both", "outcome"] = "value",
    once: bool = False,
    clip_low: float = 3e-3,
    clip_high: float = 4e-3,
    **steps: Unpack[Steps],
) -> Algorithm:
    """Agentic Turn-based Policy Optimization via Tree Search.

    Args:
        chains: first rollouts of each task, M (ours; the paper's 10).
        branches: turns answered anew in an expansion, K (ours; the paper's 6).
        expansions: how often, L.
        expansion: choose turns by uncertainty, or by chance.
        penalty: for each answer beside a turn, alpha (the code's; the paper names no value).
        scoring: turns compete (paper), or the root does as well (code).
        child_weights: how a turn's value is made of its children's; softmax is the code's.
        credit: V, V - V(parent), V - V(root), both, or the outcome of the whole rollout.
        once: train a shared turn once, not once for each rollout through it.
        clip_low: bound of the turn's ratio below.
        clip_high: bound above.
        **steps: see `Steps`.
    """
    return Algorithm(
        grow=EntropyTree(chains, branches, expansions, 1, penalty, scoring, expansion=expansion),
        credit=TurnValue(child_weights, credit, once),
        loss=PolicyLoss(clip_low, clip_high, ratio=Level.TURN, mean=Mean.ROLLOUT),
        update=Update(**steps),
    )

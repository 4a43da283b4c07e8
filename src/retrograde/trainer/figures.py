"""Figures of the rollouts of an iteration, under the names that TRL and verl use."""

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from statistics import fmean, pstdev

from retrograde.data.tree import End, Group, Tree
from retrograde.rollouts.plans import rollouts_grown
from retrograde.trainer.evaluation import valid_returns

PLAYED = (End.FINISHED, End.TRUNCATED)
"""Ends of rollouts that were played to where the environment or a limit ended them."""


def figures_of(groups: Sequence[Group]) -> dict[str, float]:
    """Figures by name; none of no groups. `docs/metrics.md` says what each means."""
    if not groups:
        return {}
    trees = [tree for group in groups for tree in group.trees]
    returns = valid_returns(groups)
    line: dict[str, float] = {}
    if any(len(group.trees) > 1 for group in groups):  # a group of one trunk has no spread
        flat = sum(len(set(valid_returns([group]))) <= 1 for group in groups)
        line["frac_reward_zero_std"] = flat / len(groups)
    line |= {
        "reward/mean": fmean(returns) if returns else 0.0,
        "reward/std": pstdev(returns) if returns else 0.0,
        "num_turns/mean": fmean(len(tree.trunk) for tree in trees),
        "num_turns/max": float(max(len(tree.trunk) for tree in trees)),
        "rollouts/grown": float(sum(rollouts_grown(group) for group in groups)),
    }
    return line | _of_leaves(trees) | _of_answers(trees)


def _of_leaves(trees: Sequence[Tree]) -> dict[str, float]:
    """Of all rollouts that were played out, siblings among them."""
    played = [(t, leaf) for t in trees for leaf in t.leaves if t.turns[leaf].end in PLAYED]
    if not played:
        return {}
    earned = [tree.returns[leaf] for tree, leaf in played]
    said = Counter(tuple(tree.turns[i].action for i in tree.path(leaf)) for tree, leaf in played)
    return {
        "reward/min": min(earned),
        "reward/max": max(earned),
        "rollouts/most_repeated": max(said.values()) / len(played),
    }


def _of_answers(trees: Sequence[Tree]) -> dict[str, float]:
    turns = [turn for tree in trees for turn in tree.turns if turn.action]
    if not turns:
        return {}
    line = {
        "completions/min_length": float(min(len(turn.action) for turn in turns)),
        "completions/max_length": float(max(len(turn.action) for turn in turns)),
    }
    entropies = list(chain.from_iterable(turn.entropies for turn in turns))
    return line | ({"entropy": fmean(entropies)} if entropies else {})

"""A stored group as the page reads it: arrays instead of names, what is derived left out."""

from collections import Counter
from typing import Any

from retrograde.data.stored import Played, StoredGroup, Visit
from retrograde.data.tree import Turn
from retrograde.report.recorded import rounded

DECIMALS = 4
"""Of log-probabilities and entropies, in nats."""


def group_payload(stored: StoredGroup) -> dict[str, Any]:
    """Everything the page shows of a group."""
    trees = [
        {
            "turns": [_turn(turn) for turn in tree.turns],
            "success": {str(leaf): won for leaf, won in success.items()},
            "visits": [_visit(visit) for visit in visits],
        }
        for tree, success, visits in zip(
            stored.group.trees, stored.success, stored.visits, strict=True
        )
    ]
    return {
        "task": stored.group.task,
        "step": stored.step,
        "trees": trees,
        "pieces": {str(i): piece for i, piece in stored.pieces.items()},
        "special": sorted(stored.special),
        "space": _space(stored),
    }


def index_entry(stored: StoredGroup) -> dict[str, Any]:
    """What the list of groups says of one, and what it can be found by."""
    trees = stored.group.trees
    leaves = [(tree, leaf) for tree in trees for leaf in tree.leaves]
    returns = [
        tree.returns[leaf]
        for (tree, won) in zip(trees, stored.success, strict=True)
        for leaf in won
    ]
    won = [each for success in stored.success for each in success.values()]
    visits = [visit for tree in stored.visits for visit in tree]
    return {
        "step": stored.step,
        "played": "training"
        if stored.played is Played.TRAINING
        else ("greedy" if stored.greedy else "sampled"),
        "task": stored.group.task,
        "trees": len(trees),
        "turns": sum(len(tree.turns) for tree in trees),
        "leaves": len(leaves),
        "won": sum(won),
        "judged": len(won),
        "mean": rounded(sum(returns) / len(returns)) if returns else None,
        "ends": Counter(str(tree.turns[leaf].end) for tree, leaf in leaves),
        "rounds": 1 + max((turn.grown_in for tree in trees for turn in tree.turns), default=0),
        "gradient": sum(visit.carried_gradient for visit in visits),
        "visits": len(visits),
    }


def _turn(turn: Turn) -> list[Any]:
    return [
        turn.parent,
        turn.shared,
        turn.fresh,
        turn.action,
        _short(turn.logprobs),
        _short(turn.entropies),
        turn.grown_in,
        turn.policy_version,
        rounded(turn.reward),
        turn.score,
        None if turn.end is None else str(turn.end),
        turn.merged_into,
    ]


def _visit(visit: Visit) -> list[Any]:
    each = visit.advantage
    return [
        visit.turn,
        visit.leaf,
        visit.phase,
        visit.update,
        _short(each) if isinstance(each, tuple) else rounded(each),
        _short(visit.before),
        _short(visit.after),
        _short(visit.values),
        visit.carried_gradient,
    ]


def _short(values: tuple[float, ...]) -> list[float]:
    return [round(value, DECIMALS) for value in values]


def _space(stored: StoredGroup) -> str:
    """What stands between the pieces of tokens so that they make up the text of an answer."""
    for tree, texts in zip(stored.group.trees, stored.texts, strict=True):
        for turn, text in zip(tree.turns, texts, strict=False):
            pieces = [stored.pieces[i] for i in turn.action]
            if len(pieces) > 1:
                return " " if " ".join(pieces) == text.said != "".join(pieces) else ""
    return ""

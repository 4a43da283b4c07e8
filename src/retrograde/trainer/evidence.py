"""Asks models what credit needs to know about rollouts that were grown."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from retrograde.algorithms.algorithm import Algorithm
from retrograde.data.evidence import Evidence
from retrograde.data.offer import Offer
from retrograde.data.rows import Row, View, row_of
from retrograde.data.tree import Group
from retrograde.losses.value import ValueLoss
from retrograde.trainer.ports import Ports


def gathered(
    algorithm: Algorithm, groups: Sequence[Group], ports: Ports, progress: float
) -> list[Evidence]:
    """Evidence on each group, under the weights of now."""
    found = [Evidence(progress=progress) for _ in groups]
    if Offer.GOLD in algorithm.needs:
        ports.journal.doing("scoring right answers")
        found = [
            replace(known, gold_logp=_gold_logp(group, ports))
            for known, group in zip(found, groups, strict=True)
        ]
    if algorithm.critic is not None:
        ports.journal.doing("valuing states")
        found = [
            replace(known, values=values)
            for known, values in zip(found, _values(algorithm.critic, groups, ports), strict=True)
        ]
    return found


def rows_of_turns(group: Group) -> dict[tuple[int, int], Row]:
    """Every turn of a group as a row, by tree and turn; what they are worth is left open.

    A turn that failed for want of an answer is none.
    """
    return {
        (t, i): row_of(tree, i, 0.0, View.EXACT, (0, 0, t, i))
        for t, tree in enumerate(group.trees)
        for i, turn in enumerate(tree.turns)
        if turn.action
    }


def _gold_logp(group: Group, ports: Ports) -> dict[tuple[int, int], float]:
    gold = ports.gold(group.task)
    rows = {
        place: replace(row, action=gold, behaviour_logp=(0.0,) * len(gold), entropies=())
        for place, row in rows_of_turns(group).items()
    }
    scores = ports.learner.score(list(rows.values()))
    return {place: fmean(logp) for place, logp in zip(rows, scores, strict=True)}


def _values(
    loss: ValueLoss, groups: Sequence[Group], ports: Ports
) -> list[dict[tuple[int, int], tuple[float, ...]]]:
    if ports.critic is None:
        raise ValueError("the algorithm asks a critic, and Ports.critic is None")
    places = [rows_of_turns(group) for group in groups]
    said = iter(ports.critic.values([row for rows in places for row in rows.values()], loss))
    return [{place: next(said) for place in rows} for rows in places]

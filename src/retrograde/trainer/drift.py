"""How far an update moves the turns it did not train.

Under shared weights a "frozen" turn is only one that gives no gradient. Drift is the mean
absolute change of log pi, summed over an action's tokens, of trunk answers at each turn.
"""

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean

from retrograde.data.rows import Row, View, row_of
from retrograde.data.tree import End, Group
from retrograde.trainer.ports import Learner

PER_TURN = 8
"""Trunk answers watched at each turn; enough for a mean, few enough to cost little."""


class Drift:
    """Watches the trunks of one iteration."""

    def __init__(self) -> None:
        """Watch nothing yet."""
        self._rows: list[Row] = []
        self._before: list[float] = []

    def watch(self, groups: Sequence[Group], learner: Learner) -> None:
        """Choose what to watch, once an iteration, and score it."""
        if self._rows:
            return
        at: defaultdict[int, list[Row]] = defaultdict(list)
        for g, group in enumerate(groups):
            for t, tree in enumerate(group.trees):
                for turn in tree.trunk:
                    watched = at[tree.depths[turn]]
                    if len(watched) < PER_TURN and tree.turns[turn].end is not End.FAILED:
                        watched.append(row_of(tree, turn, 0.0, View.EXACT, (0, g, t, turn)))
        self._rows = [row for rows in at.values() for row in rows]
        self._before = _totals(self._rows, learner)

    def measured(self, trained: set[int], learner: Learner) -> dict[str, float]:
        """Change since the last call at every turn that was not trained since, by turn index."""
        if not self._rows or not trained:
            return {}
        now = _totals(self._rows, learner)
        change: defaultdict[int, list[float]] = defaultdict(list)
        for row, before, after in zip(self._rows, self._before, now, strict=True):
            if row.turn not in trained:
                change[row.turn].append(abs(after - before))
        self._before = now
        return {f"drift/turn_{turn}": fmean(change[turn]) for turn in sorted(change)}


def _totals(rows: Sequence[Row], learner: Learner) -> list[float]:
    return [sum(logp) for logp in learner.score(rows)]

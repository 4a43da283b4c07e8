"""How far an update moves the turns it did not train.

Under shared weights a "frozen" turn is only one that gives no gradient. Drift is the mean
absolute change of log pi, summed over an action's tokens, of trunk answers at each turn.
"""

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean

from retrograde.data.rows import Row, View, row_of
from retrograde.data.tree import End, Group
from retrograde.trainer.scores import Scores

PER_TURN = 8
"""Trunk answers watched at each turn; enough for a mean, few enough to cost little."""


class Drift:
    """Watches the trunks of one iteration."""

    def __init__(self) -> None:
        """Watch nothing yet."""
        self.rows: list[Row] = []
        """What is watched."""
        self._before: list[float] = []

    @property
    def unscored(self) -> list[Row]:
        """What is watched, until `note` was told what it scores before the first update."""
        return [] if self._before else self.rows

    def watch(self, groups: Sequence[Group]) -> None:
        """Choose what to watch, once an iteration."""
        if self.rows:
            return
        at: defaultdict[int, list[Row]] = defaultdict(list)
        for g, group in enumerate(groups):
            for t, tree in enumerate(group.trees):
                for turn in tree.trunk:
                    watched = at[tree.depths[turn]]
                    if len(watched) < PER_TURN and tree.turns[turn].end is not End.FAILED:
                        watched.append(row_of(tree, turn, 0.0, View.EXACT, (0, g, t, turn)))
        self.rows = [row for rows in at.values() for row in rows]

    def note(self, scores: Scores) -> None:
        """Remember what `unscored` rows score."""
        self._before = [sum(logp) for logp in scores] or self._before

    def measured(self, trained: set[int], scores: Scores) -> dict[str, float]:
        """Change since the last scores at every turn that was not trained since, by turn index.

        Args:
            trained: the absolute indices of the turns that were.
            scores: of all that is watched, after the update.
        """
        now = [sum(logp) for logp in scores]
        change: defaultdict[int, list[float]] = defaultdict(list)
        for row, before, after in zip(self.rows, self._before, now, strict=True):
            if row.turn not in trained:
                change[row.turn].append(abs(after - before))
        self._before = now
        return {f"drift/turn_{turn}": fmean(change[turn]) for turn in sorted(change)}

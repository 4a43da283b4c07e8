"""Scores for several parties from one pass: what their rows share is run once."""

from collections.abc import Sequence

from retrograde.data.rows import Row
from retrograde.trainer.ports import Learner

Scores = Sequence[Sequence[float]]
"""log pi of each row's action, token by token."""


def scored(learner: Learner, *wanted: Sequence[Row]) -> list[Scores]:
    """What each party's rows score under the weights of now, in the order of the parties."""
    rows = [row for party in wanted for row in party]
    scores = iter(learner.score(rows) if rows else ())
    return [[next(scores) for _ in party] for party in wanted]

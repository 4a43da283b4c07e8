"""N8: turns that gave no gradient move all the same, since all turns share one network."""

import pytest

from retrograde.algorithms.rtpo import rtpo
from retrograde.data.tree import ROOT_PARENT, End, Group, Tree, Turn
from retrograde.trainer.drift import PER_TURN, Drift

from .runs import TURNS, ran
from .test_n1_contexts import QUICK

pytestmark = pytest.mark.usefixtures("_taught")


async def test_turns_that_a_phase_does_not_train_drift():
    run = await ran(rtpo(siblings=4, **QUICK))
    measured = [
        {name: value for name, value in figures.items() if name.startswith("drift/")}
        for figures in run.notes.updates
    ]
    phases = [drift for drift in measured if drift]
    assert [set(drift) for drift in phases] == [
        {f"drift/turn_{other}" for other in range(TURNS) if other != trained}
        for trained in reversed(range(TURNS))
    ]
    assert all(1e-4 < value < 100 for drift in phases for value in drift.values())


async def test_without_a_step_nothing_drifts():
    run = await ran(rtpo(siblings=4, **(QUICK | {"min_signal": 10_000})))
    assert not any(name.startswith("drift/") for figures in run.notes.updates for name in figures)


def tree(task_token, turns, end=End.FINISHED):
    return Tree(
        tuple(
            Turn(
                parent=i - 1 if i else ROOT_PARENT,
                shared=0,
                fresh=(task_token, i),
                observation=(i,),
                action=(7, 8),
                logprobs=(-1.0, -1.0),
                grown_in=0,
                policy_version=0,
                end=end if i == turns - 1 else None,
            )
            for i in range(turns)
        )
    )


def scores(rows, now):
    """Under weights that are one number."""
    return [[-1.0, -1.0 + now * (1 + row.turn)] for row in rows]


def test_drift_is_the_mean_change_of_an_answers_log_probability_since_the_last_phase():
    groups = [Group("a", (tree(1, 2),)), Group("b", (tree(2, 3),))]
    drift = Drift()
    drift.watch(groups)
    assert drift.unscored == drift.rows
    drift.note(scores(drift.rows, 0.0))
    assert drift.unscored == []
    drift.note([])  # nothing was asked, nothing is forgotten
    assert drift.measured({2}, scores(drift.rows, 0.5)) == {"drift/turn_0": 0.5, "drift/turn_1": 1}
    # Since the last call, and in size: falling is drifting, too.
    assert drift.measured({0}, scores(drift.rows, 0.25)) == pytest.approx(
        {"drift/turn_1": 0.5, "drift/turn_2": 0.75}
    )


def test_a_few_answers_of_each_turn_are_watched_and_no_failed_ones():
    groups = [Group(str(i), (tree(i, 2),)) for i in range(3 * PER_TURN)]
    broken = [Group("x", (tree(99, 1, End.FAILED),))]
    drift = Drift()
    drift.watch(broken + groups)
    assert [sum(row.turn == turn for row in drift.rows) for turn in (0, 1)] == [PER_TURN] * 2
    assert not any(99 in row.context for row in drift.rows)
    chosen = list(drift.rows)
    drift.watch(groups[::-1])  # once an iteration
    assert drift.rows == chosen


def test_nothing_that_is_not_watched_drifts():
    assert Drift().unscored == []
    assert Drift().measured({0}, []) == {}

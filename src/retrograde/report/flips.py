"""Held-out tasks that a run learned to do, or forgot."""

from collections.abc import Sequence
from typing import Any

from retrograde.report.recorded import Record

KINDS = ("sampled", "greedy")


def flipped(evaluations: Sequence[Record]) -> list[dict[str, Any]]:
    """Tasks whose first and last evaluation differ: the newly failing first.

    Tasks whose world broke in either have no outcome to compare and are left out. Each task has
    its whole `history`, an evaluation at a time: 1, 0, or None where its world broke.
    """
    if len(evaluations) < 2:  # noqa: PLR2004 - a change needs a before and an after
        return []
    found: list[dict[str, Any]] = []
    for kind in KINDS:
        told = [line for line in evaluations if kind in line]
        if len(told) != len(evaluations):
            continue
        for i, task in enumerate(told[-1]["tasks"]):
            history = [_at(line, kind, task, i) for line in told]
            before, after = history[0], history[-1]
            if before is None or after is None or before == after:
                continue
            found.append(
                {
                    "task": task,
                    "greedy": kind == "greedy",
                    "history": history,
                    "steps": [line["step"] for line in told],
                    "learned": bool(after),
                }
            )
    return sorted(found, key=lambda flip: (flip["learned"], flip["greedy"]))


def _at(line: Record, kind: str, task: str, place: int) -> int | None:
    """The outcome of a task, which every evaluation plays at the same place."""
    tasks, outcomes = line["tasks"], line[kind]["success"]
    if place >= len(tasks) or tasks[place] != task or outcomes[place] is None:
        return None
    return int(outcomes[place])

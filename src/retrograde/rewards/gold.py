"""Rewards for saying what is right."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from retrograde.data.message import spoken
from retrograde.environments.search import answers
from retrograde.rewards.record import Record

_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)


def said(answer: str) -> str:
    """What of an answer counts: what is tagged `<answer>` last, or all that is no thought."""
    tagged = _ANSWER.findall(answer)
    return tagged[-1].strip() if tagged else spoken(answer)


def right_answers(record: Record, column: str | None) -> list[str]:
    """What a task's answer is compared with: one text, or several of which any will do.

    Args:
        record: a rollout.
        column: the column of the task that holds it; None for the environment's own gold answer.

    Raises:
        LookupError: there is no such column, or no gold answer.
    """
    if column is None:
        if record.gold is None:
            raise LookupError(
                f"task {record.task}: the environment has no gold answer (Offer.GOLD); name the "
                f"column that holds one (column=...), known: {', '.join(record.columns) or 'none'}"
            )
        return [said(record.gold)]
    if column not in record.columns:
        known = ", ".join(record.columns) or "none"
        raise LookupError(f"task {record.task} has no column {column!r}; known: {known}")
    found = record.columns[column]
    if isinstance(found, (list, tuple)):
        return [str(each) for each in cast("Sequence[object]", found)]
    return [str(found)]


def _best(
    record: Record, column: str | None, alike: Callable[[str, Sequence[str]], float]
) -> float:
    return alike(said(record.answer), right_answers(record, column))


@dataclass(frozen=True)
class ExactMatch:
    """1 if the last answer is the right one, after SQuAD's normalisation; else 0."""

    column: str | None = None
    """Column of the task with the right answer, or several; None for the gold answer."""

    def __call__(self, record: Record) -> float:
        """Compare."""
        return _best(record, self.column, answers.exact_match)


@dataclass(frozen=True)
class F1:
    """How many words the last answer has in common with the right one, after SQuAD."""

    column: str | None = None
    """Column of the task with the right answer, or several; None for the gold answer."""

    def __call__(self, record: Record) -> float:
        """Compare."""
        return _best(record, self.column, answers.f1)

"""What an episode came to: the record of it, and whether its answer is the right one."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from retrograde.environments.calls.react import boxed

_GAPS = re.compile(r"\s+")
_EDGES = " .,:;!?\"'`*"


@dataclass(frozen=True, slots=True)
class Made:
    """A call that was run."""

    name: str
    arguments: Mapping[str, Any]
    result: str
    event: str | None = None
    """`tool/error`, `tool/timeout` and the like; None if all went well."""


@dataclass(frozen=True, slots=True)
class Record:
    """An episode so far: what a teacher goes by, and what a reward judges."""

    row: Mapping[str, Any]
    """The task's columns."""
    answers: tuple[str, ...] = ()
    """Each answer of the policy, word for word."""
    calls: tuple[Made, ...] = ()
    """Calls that were run, in order; malformed ones are not among them."""
    events: tuple[str, ...] = ()
    """What went wrong, such as `call/malformed`, in order."""
    said: str | None = None
    """The final answer; None while there is none."""
    toolbox: object = None
    """The object whose methods are the tools, if there is one."""


def gold_of(row: Mapping[str, Any], column: str) -> Any:
    """The right answer of a task: a column of its own, or verl's `reward_model.ground_truth`.

    Raises:
        LookupError: it has none.
    """
    if row.get(column) is not None:
        return row[column]
    judged: Any = row.get("reward_model")
    if isinstance(judged, dict):
        truth = cast("dict[str, Any]", judged).get("ground_truth")
        if truth is not None:
            return truth
    raise LookupError(f"no column {column!r}, and no reward_model.ground_truth")


def matches(said: str, gold: Any) -> bool:
    r"""Whether an answer is the right one: what it boxes, or else all of it, is compared.

    Numbers are equal as numbers; text is equal but for case, white space and the signs at its
    ends. Of several right answers any will do.
    """
    box = boxed(said)
    answer = said if box is None else box
    right = cast("Sequence[Any]", gold) if isinstance(gold, list | tuple) else (gold,)
    return any(_equal(answer, str(one)) for one in right)


def _equal(one: str, other: str) -> bool:
    first, second = _number(one), _number(other)
    if first is not None and second is not None:
        return math.isclose(first, second, rel_tol=1e-9, abs_tol=1e-12)
    return _plain(one) == _plain(other)


def _number(text: str) -> float | None:
    try:
        number = float(text.replace(",", "").strip(_EDGES))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _plain(text: str) -> str:
    return _GAPS.sub(" ", text).strip(_EDGES).casefold()

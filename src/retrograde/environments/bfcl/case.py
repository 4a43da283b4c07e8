"""BFCL's multi-turn tasks: 200 stories, each told in four ways."""

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from importlib.util import find_spec
from typing import Any, Literal, Self, get_args

from retrograde.environments.bfcl.function import Function
from retrograde.environments.bfcl.reading import Call, Malformed, calls_in
from retrograde.environments.extras import MissingExtraError
from retrograde.environments.protocol import Split
from retrograde.environments.tasks import parts_of_task

Category = Literal["base", "long_context", "miss_func", "miss_param"]
CATEGORIES: tuple[Category, ...] = get_args(Category)
STORIES = 200
MOST_MESSAGES = 8
"""No task has more user messages."""

ADDED = "I have updated some more functions you can choose from. What about now?"
"""BFCL's words where functions are added that were missing."""

MODULES = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TwitterAPI": "posting_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
}
"""Classes of simulators, and what the modules and the documentation of each are called."""


@dataclass(frozen=True, slots=True)
class Request:
    """A message of the user, and what is to be done about it."""

    text: str
    functions: tuple[Function, ...]
    """What may be called from here on and could not be before."""
    truth: tuple[Call, ...]
    """The right calls; none where the user asks for what cannot be done."""


@dataclass(frozen=True, slots=True)
class Case:
    """A task of BFCL."""

    category: Category
    story: int
    """From 0 to 199. The four categories tell a story of one number with small differences."""
    requests: tuple[Request, ...]
    classes: tuple[str, ...]
    """The simulators in it."""
    start: dict[str, Any]
    """What each simulator is loaded with. Never changed: copy it."""

    @property
    def long_context(self) -> bool:
        """Whether its simulators pad what they say."""
        return self.category == "long_context"

    @classmethod
    def of(cls, task: str, category: Category | Literal["all"]) -> Self:
        """The case of a task.

        Raises:
            ValueError: there is no such task.
            MissingExtraError: bfcl-eval is not installed.
        """
        split, index = parts_of_task(task, "bfcl")
        categories = CATEGORIES if category == "all" else (category,)
        story, kind = divmod(int(index), len(categories))
        of_split = [number for number in range(STORIES) if split_of(number) == split]
        if story >= len(of_split):
            size = len(of_split) * len(categories)
            raise ValueError(f"bfcl has {size} {split} tasks: no {task}")
        return cls.told(categories[kind], of_split[story])

    @classmethod
    def told(cls, category: Category, story: int) -> Self:
        """A story as one of the categories tells it."""
        row, truth = _rows(category)[story], _truths(category)[story]
        hidden = set(row.get("excluded_function", ()))
        known = {
            function.name: function
            for name in row["involved_classes"]
            for function in _documented(name)
            if function.name not in hidden
        }
        answers = [tuple(_call(text) for text in texts) for texts in truth]
        missed = _missed(row, answers)
        missing = {name for names in missed.values() for name in names}
        added = [tuple(known[name] for name in missed.get(i, ())) for i in range(len(answers))]
        added[0] = tuple(function for name, function in known.items() if name not in missing)
        texts = [said[0]["content"] if said else ADDED for said in row["question"]]
        requests = tuple(map(Request, texts, added, answers))
        classes = tuple(row["involved_classes"])
        return cls(category, story, requests, classes, row["initial_config"])


def split_of(story: int) -> Split:
    """Which split the four tellings of a story belong to: odd numbers are for testing.

    Story 133 begins in the same world as 100 and 104, so it changes places with 132.
    """
    place = {132: 133, 133: 132}.get(story, story)
    return "test" if place % 2 else "train"


def _missed(row: dict[str, Any], answers: list[tuple[Call, ...]]) -> dict[int, list[str]]:
    """Names of functions that are missing, by the turn in which they are added.

    What the right calls need earlier is not missing: that is so of `tail` in story 49 alone,
    and no policy could do what is asked for there.
    """
    missed: dict[int, list[str]] = {}
    for turn, names in row.get("missed_function", {}).items():
        used = {call.name for calls in answers[: int(turn)] for call in calls}
        missed[int(turn)] = [name for name in names if name not in used]
    return missed


def _call(text: str) -> Call:
    (call,) = calls_in(f"[{text}]", "pythonic")
    if isinstance(call, Malformed):
        raise ValueError(f"bfcl-eval: a right call that cannot be read: {text}: {call.reason}")  # noqa: TRY004
    return call


@lru_cache
def _rows(category: Category) -> tuple[dict[str, Any], ...]:
    return _of_file(f"BFCL_v4_multi_turn_{category}.json", STORIES)


@lru_cache
def _truths(category: Category) -> tuple[list[list[str]], ...]:
    rows = _of_file(f"possible_answer/BFCL_v4_multi_turn_{category}.json", STORIES)
    return tuple(row["ground_truth"] for row in rows)


@lru_cache
def _documented(name: str) -> tuple[Function, ...]:
    rows = _of_file(f"multi_turn_func_doc/{MODULES[name]}.json")
    return tuple(Function(row["name"], row["description"], row["parameters"]) for row in rows)


def _of_file(name: str, size: int | None = None) -> tuple[dict[str, Any], ...]:
    if find_spec("bfcl_eval") is None:
        raise MissingExtraError(
            "bfcl_eval is needed and not installed: "
            "pip install --no-deps 'bfcl-eval==2026.3.23' (its simulators need none of its "
            "dependencies but mpmath, which torch brings)"
        )
    text = files("bfcl_eval").joinpath("data", name).read_text(encoding="utf-8")
    rows = tuple(json.loads(line) for line in text.splitlines())
    if size is not None and len(rows) != size:
        raise ValueError(f"bfcl-eval: {name} has {len(rows)} rows, {size} are needed: 2026.3.23")
    return rows

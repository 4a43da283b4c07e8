"""What an answer asks of tools, and the words around it."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

SOLE = ""
"""Stands for a tool's only argument in formats that do not name it."""
DEEPEST = 64
"""Levels of lists and objects in arguments; nothing that means something has more."""
CallEvent = Literal["call/malformed", "call/unknown_tool", "call/bad_arguments", "call/too_many"]


@dataclass(frozen=True, slots=True)
class Call:
    """A tool and its arguments; whether there is such a tool is not known yet."""

    name: str
    arguments: Mapping[str, Any]
    verbatim: bool = False
    """Whether arguments are the text as written, whose types only the tool's schema tells."""


@dataclass(frozen=True, slots=True)
class Malformed:
    """Something that was meant as a call and is none. It is never run."""

    why: str
    """In words that help whoever wrote it."""
    event: CallEvent = "call/malformed"
    name: str | None = None
    """The tool, as far as it could be read."""


@dataclass(frozen=True, slots=True)
class Said:
    """An answer, read in one format."""

    calls: tuple[Call | Malformed, ...] = ()
    """In the order in which they stand."""
    words: str = ""
    """Everything outside calls and thought."""
    answer: str | None = None
    """The final answer, in formats that mark one; None if it is not marked."""


@dataclass(frozen=True)
class Format:
    """One way of writing calls."""

    read: Callable[[str], Said]
    """Reads an answer without its thought. Takes any text; never raises."""
    write: Callable[[str, Sequence[Call]], str]
    """Words and calls as a policy would say them; raises ValueError for what cannot be said."""
    answered: Callable[[str], str]
    """A final answer as a policy would say it."""
    manual: str
    """How to write a call, for policies whose chat template does not say it."""
    is_marked: bool = False
    """Whether a final answer carries a mark, so that mere words are none."""
    tells: Literal["tool", "user"] = "tool"
    """The role in which results come back."""
    listed_in: Literal["template", "text"] = "template"
    """Who lists the tools, unless an environment says otherwise: the chat templates of models
    that write calls so, or the text of the system message."""
    phrases: tuple[str, ...] = ()
    """Marks of the format that are one token each for the embedded policy."""


def settled(call: Call) -> Call | Malformed:
    """The call, if its arguments can be said in JSON and encoded."""
    if _depth(call.arguments) > DEEPEST:
        return Malformed(f"the arguments are nested more than {DEEPEST} deep", name=call.name)
    try:
        text = json.dumps([call.name, call.arguments], ensure_ascii=False, allow_nan=False)
        text.encode()
    except UnicodeEncodeError:
        return Malformed("a string in it holds half of a surrogate pair, which is no character")
    except (TypeError, ValueError):
        return Malformed("an argument is not something that JSON can say", name=call.name)
    return call


def finite(text: str) -> float:
    """The number that a text says.

    Raises:
        ValueError: it is too large to be one.
    """
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no finite number")
    return number


def _depth(value: object) -> int:
    deepest, waiting = 0, [(value, 1)]
    while waiting and deepest <= DEEPEST:
        found, depth = waiting.pop()
        if isinstance(found, Mapping):
            inner = list(cast("Mapping[str, object]", found).values())
        elif isinstance(found, list):
            inner = cast("list[object]", found)
        else:
            continue
        deepest = max(deepest, depth)
        waiting += [(one, depth + 1) for one in inner]
    return deepest

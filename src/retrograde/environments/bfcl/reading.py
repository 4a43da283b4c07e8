"""Calls in a policy's words, and a policy's words for calls.

Two formats. `hermes`: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, once for each
call, with any words around. `pythonic`: the whole answer is one list, `[cd(folder='a'), ls()]`.
Arguments are literals; nothing that a policy says is ever evaluated.
"""

import ast
import json
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn, cast

from retrograde.data.message import spoken

Form = Literal["hermes", "pythonic"]

OPENS, CLOSES = "<tool_call>", "</tool_call>"
_TAGGED = re.compile(rf"{OPENS}(.*?)({CLOSES}|\Z)", re.DOTALL)
_FENCED = re.compile(r"```(?:python|json)?\s*\n(.*?)\n?```", re.DOTALL)
_UNREADABLE = (SyntaxError, ValueError, TypeError, RecursionError, MemoryError)
"""What reading of strange text may raise; the last two come of deep nesting."""


@dataclass(frozen=True, slots=True)
class Call:
    """A function and what it is given."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    positional: tuple[Any, ...] = ()
    """Arguments without a name; only the pythonic format has them."""


@dataclass(frozen=True, slots=True)
class Malformed:
    """Words that were meant as a call and are none."""

    reason: str


def calls_in(text: str, form: Form) -> list[Call | Malformed]:
    """What is to be called, in the order in which it is said; thoughts call nothing."""
    said = spoken(text)
    return list(_tagged(said) if form == "hermes" else _listed(said))


def said(calls: Sequence[Call], form: Form) -> str:
    """An answer that makes these calls.

    Raises:
        ValueError: an argument without a name is to be said in the hermes format.
    """
    if form == "pythonic":
        return f"[{', '.join(map(_pythonic, calls))}]"
    if nameless := [call.name for call in calls if call.positional]:
        raise ValueError(f"hermes names every argument, but {nameless[0]} has one without a name")
    texts = (json.dumps({"name": call.name, "arguments": dict(call.arguments)}) for call in calls)
    return "\n".join(f"{OPENS}\n{text}\n{CLOSES}" for text in texts)


def _pythonic(call: Call) -> str:
    given = [repr(value) for value in call.positional]
    given += [f"{name}={value!r}" for name, value in call.arguments.items()]
    return f"{call.name}({', '.join(given)})"


def _tagged(text: str) -> Iterator[Call | Malformed]:
    if CLOSES in _TAGGED.sub("", text):
        yield Malformed(f"{CLOSES} without {OPENS}")
    for inside, closed in _TAGGED.findall(text):
        yield _call_of_json(inside) if closed else Malformed(f"{OPENS} without {CLOSES}")


def _call_of_json(text: str) -> Call | Malformed:
    try:
        read: Any = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as fault:
        return Malformed(f"this is not JSON: {fault}")
    if not isinstance(read, dict):
        return Malformed("a JSON object with name and arguments is needed")
    parts = cast("dict[str, Any]", read)
    name, arguments = parts.get("name"), parts.get("arguments")
    if not isinstance(name, str):
        return Malformed("name: the name of a function is needed")
    if not isinstance(arguments, dict):
        return Malformed("arguments: a JSON object is needed, {} if there are none")
    return Call(name, cast("dict[str, Any]", arguments))


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


def _listed(text: str) -> Iterator[Call | Malformed]:
    fenced = _FENCED.fullmatch(text)
    inside = (fenced[1] if fenced else text).strip()
    if not inside.startswith("["):
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns of odd escapes in what it parses
            tree = ast.parse(inside, mode="eval").body
    except _UNREADABLE as fault:
        yield Malformed(f"this is not a list of calls: {fault}")
        return
    if not isinstance(tree, ast.List):
        yield Malformed("a list of calls is needed, and nothing else")
        return
    for node in tree.elts:
        yield _call_of_node(node)


def _call_of_node(node: ast.expr) -> Call | Malformed:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
        return Malformed("a call is needed, such as f(a=1)")
    named: dict[str, Any] = {}
    try:
        positional = tuple(_literal(value) for value in node.args)
        for keyword in node.keywords:
            if keyword.arg is None:
                return Malformed(f"{node.func.id}: arguments are written out, not unpacked")
            named[keyword.arg] = _literal(keyword.value)
    except _UNREADABLE as fault:
        return Malformed(f"{node.func.id}: arguments are numbers, texts, lists and such: {fault}")
    return Call(node.func.id, named, positional)


def _literal(node: ast.expr) -> Any:
    value = ast.literal_eval(node)
    json.dumps(value, allow_nan=False)  # raises where JSON has no such value
    return value

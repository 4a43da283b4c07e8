"""Pythonic: a list of Python calls, `[f(a=1), g(b="x")]`, of which only literals are read."""

import ast
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, cast

from retrograde.environments.calls.call import Call, Format, Malformed, Said, settled

LIKE_A_CALL = re.compile(r"\[\s*[A-Za-z_][\w.]*\s*\(")
LONGEST = 20_000
"""Characters that are handed to Python's parser, which is no friend of more."""
HINT = "say [NAME(ARGUMENT=VALUE)], with names before values and only plain values"


def read(text: str) -> Said:
    """An answer that is a list of calls, from its first sign to its last."""
    text = text.strip()
    if not text.startswith("["):
        return Said((), text)
    looks_so = LIKE_A_CALL.match(text) is not None
    tree = _parsed(text)
    if tree is None:
        wrong = Malformed(f"the calls are not valid Python; {HINT}")
        return Said((wrong,)) if looks_so else Said((), text)
    if not any(isinstance(one, ast.Call) for one in tree.elts):
        return Said((), text)
    return Said(tuple(_call(one) for one in tree.elts))


def write(words: str, calls: Sequence[Call]) -> str:
    """The calls as a list.

    Raises:
        ValueError: there are words beside calls; the format has no place for them.
    """
    if not calls:
        return words
    if words:
        raise ValueError(f"words beside calls cannot be said in this format, got {words!r}")
    return "[" + ", ".join(_written(call) for call in calls) + "]"


def _written(call: Call) -> str:
    said = ", ".join(f"{name}={_literal(value)}" for name, value in call.arguments.items())
    return f"{call.name}({said})"


def _literal(value: Any) -> str:
    text = repr(value)
    for tag in ("<think>", "</think>"):
        text = text.replace(tag, f"\\x3c{tag[1:]}")
    return text


def _parsed(text: str) -> ast.List | None:
    if len(text) > LONGEST:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns of strange escapes in what it parses
            tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return tree if isinstance(tree, ast.List) else None


def _call(one: ast.expr) -> Call | Malformed:
    if not isinstance(one, ast.Call):
        return Malformed(f"a call stands beside something that is none; {HINT}")
    name = _name(one.func)
    if name is None:
        return Malformed(f"a call of something that is not a name; {HINT}")
    if one.args:
        return Malformed(f"{name} has an argument without a name; {HINT}", name=name)
    arguments: dict[str, Any] = {}
    for keyword in one.keywords:
        if keyword.arg is None or keyword.arg in arguments:
            return Malformed(f"{name} has ** or an argument twice; {HINT}", name=name)
        try:
            arguments[keyword.arg] = _plain(ast.literal_eval(keyword.value))
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            wrong = f"{keyword.arg} of {name} is not a plain value; {HINT}"
            return Malformed(wrong, name=name)
    return settled(Call(name, arguments))


def _name(function: ast.expr) -> str | None:
    parts: list[str] = []
    while isinstance(function, ast.Attribute):
        parts.append(function.attr)
        function = function.value
    if not isinstance(function, ast.Name):
        return None
    return ".".join([function.id, *reversed(parts)])


def _plain(value: Any) -> Any:
    """A literal as JSON has it: tuples are lists, keys are text.

    Raises:
        TypeError: JSON has nothing like it.
    """
    if isinstance(value, list | tuple):
        return [_plain(one) for one in cast("Sequence[Any]", value)]
    if isinstance(value, dict):
        found = cast("Mapping[Any, Any]", value)
        if not all(isinstance(key, str) for key in found):
            raise TypeError("a key that is no text")
        return {key: _plain(one) for key, one in found.items()}
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"a {type(value).__name__}")


PYTHONIC = Format(
    read=read,
    write=write,
    answered=str,
    manual=(
        "To call tools, say nothing but [NAME(ARGUMENT=VALUE, ...), ...]. When you know the "
        "answer, say it alone, without a call."
    ),
    listed_in="text",
)

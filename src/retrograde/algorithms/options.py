"""The options of an algorithm: its signature, with the settings that all share written out."""

import ast
import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from typing import Any, get_args, get_type_hints

from retrograde.algorithms.algorithm import Algorithm
from retrograde.schedules import update
from retrograde.schedules.update import Update


def written_out(method: Callable[..., Algorithm]) -> Callable[..., Algorithm]:
    """The same method with `**steps: Unpack[...]` as options of their own, help included."""
    signature = inspect.signature(method)
    own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    rest = [p for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD]
    if not rest:
        return method
    hints = get_type_hints(method)
    own = [p.replace(annotation=hints[p.name]) for p in own]
    (record,) = get_args(hints[rest[0].name])
    types = get_type_hints(record)
    defaults = {field.name: field.default for field in fields(Update)}
    shared = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=defaults[name], annotation=types[name]
        )
        for name in types
    ]

    def called(**options: Any) -> Algorithm:
        return method(**options)

    called.__name__ = called.__qualname__ = method.__name__
    called.__module__ = method.__module__
    called.__doc__ = _with_help(inspect.getdoc(method) or "", {p.name for p in shared})
    called.__annotations__ = {p.name: p.annotation for p in (*own, *shared)}
    called.__dict__["__signature__"] = signature.replace(
        parameters=[*own, *shared], return_annotation=Algorithm
    )
    return called


def options_of(method: Callable[..., Algorithm]) -> dict[str, Any]:
    """Names and defaults of a method's options."""
    taken = inspect.signature(written_out(method)).parameters
    return {name: parameter.default for name, parameter in taken.items()}


def _with_help(doc: str, shared: set[str]) -> str:
    lines = [line for line in doc.splitlines() if not line.lstrip().startswith("**")]
    if "Args:" not in lines:
        lines += ["", "Args:"]
    at = lines.index("Args:") + 1
    while at < len(lines) and lines[at].startswith(" "):
        at += 1
    said = _meanings()
    return "\n".join(
        [*lines[:at], *(f"    {n}: {said[n]}" for n in said if n in shared), *lines[at:]]
    )


@cache
def _meanings() -> Mapping[str, str]:
    """What the source says under the fields of its records; it is written there once."""
    found: dict[str, str] = {}
    for record in ast.parse(inspect.getsource(update)).body:
        name = ""  # a record begins with what it says of itself
        for node in record.body if isinstance(record, ast.ClassDef) else ():
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                name = node.target.id
            elif name and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                found[name] = str(node.value.value)
    return found

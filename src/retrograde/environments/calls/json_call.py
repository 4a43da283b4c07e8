"""A call as a JSON object, which two formats share."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, cast

from retrograde.data.message import THOUGHT_CLOSES, THOUGHT_OPENS
from retrograde.environments.calls.call import Call, Malformed, finite, settled


def _refused(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refused, parse_float=finite)
_BLANK = " \t\r\n"


def past_blank(text: str, at: int) -> int:
    """The first place from `at` on that is not white space."""
    while at < len(text) and text[at] in _BLANK:
        at += 1
    return at


def call_at(text: str, at: int, keys: Sequence[str]) -> tuple[Call | Malformed, int | None]:
    """The call whose object begins here, and where it ends; no end if it is not JSON.

    Args:
        text: an answer.
        at: where in it the object begins.
        keys: names under which the arguments may stand.
    """
    try:
        value, end = _DECODER.raw_decode(text, past_blank(text, at))
    except RecursionError:
        return Malformed("the call is nested too deep"), None
    except ValueError as problem:
        return Malformed(f"the call is not valid JSON: {problem}"), None
    return _call(value, keys), end


def json_text(call: Call, key: str) -> str:
    """The call as a JSON object.

    The signs of a thought are escaped, for a call is never looked for inside one.
    """
    said = json.dumps({"name": call.name, key: dict(call.arguments)}, ensure_ascii=False)
    for tag in (THOUGHT_OPENS, THOUGHT_CLOSES):
        said = said.replace(tag, f"\\u003c{tag[1:]}")
    return said


def _call(value: Any, keys: Sequence[str]) -> Call | Malformed:
    if not isinstance(value, dict):
        return Malformed(f"the call is no JSON object but a {type(value).__name__}")
    found = cast("Mapping[str, Any]", value)
    name = found.get("name")
    if not (isinstance(name, str) and name):
        return Malformed('the call has no "name"; the name of a tool is needed there')
    present = [key for key in keys if key in found]
    if not present:
        return Malformed(f'the call of {name} has no "{keys[0]}"; write {{}} if none', name=name)
    arguments = found[present[0]]
    if not isinstance(arguments, dict):
        wrong = f'"{present[0]}" of {name} must be an object, and is a {type(arguments).__name__}'
        return Malformed(wrong, name=name)
    return settled(Call(name, cast("Mapping[str, Any]", arguments)))

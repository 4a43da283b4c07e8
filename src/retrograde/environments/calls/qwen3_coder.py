"""Qwen3-Coder: XML-like tags, with every argument as plain text between them."""

import json
import re
from collections.abc import Sequence
from typing import Any

from retrograde.environments.calls.call import Call, Format, Malformed, Said, settled
from retrograde.environments.calls.json_call import past_blank

OPENS, CLOSES = "<tool_call>", "</tool_call>"
FUNCTION_CLOSES, PARAMETER_CLOSES = "</function>", "</parameter>"
_FUNCTION = re.compile(r"<function=([^<>\n]*)>")
_PARAMETER = re.compile(r"<parameter=([^<>\n]*)>")
_STRAY = re.compile(r"</?tool_call>|<function=|</function>|<parameter=|</parameter>")


def read(text: str) -> Said:
    """Calls between tags. The last may lack its closing tag, at which some engines stop."""
    calls: list[Call | Malformed] = []
    words: list[str] = []
    at = 0
    while (found := text.find(OPENS, at)) >= 0:
        words.append(text[at:found])
        call, at = _block(text, found + len(OPENS))
        calls.append(call)
    words.append(text[at:])
    around = "".join(words).strip()
    if stray := _STRAY.search(around):
        calls.append(Malformed(f"{stray[0]} stands outside {OPENS} ... {CLOSES}"))
        around = _STRAY.sub("", around).strip()
    return Said(tuple(calls), around)


def write(words: str, calls: Sequence[Call]) -> str:
    """Words first, then the calls.

    Raises:
        ValueError: a value holds a closing tag; the format has no way to say that.
    """
    blocks = [_written(call) for call in calls]
    return "\n".join([words, *blocks] if words else blocks)


def _written(call: Call) -> str:
    lines = [OPENS, f"<function={call.name}>"]
    for name, value in call.arguments.items():
        said = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if PARAMETER_CLOSES in said or "think>" in said:
            raise ValueError(f"{name} of {call.name}: {said!r} cannot be said between tags")
        lines += [f"<parameter={name}>", said, PARAMETER_CLOSES]
    return "\n".join([*lines, FUNCTION_CLOSES, CLOSES])


def _block(text: str, at: int) -> tuple[Call | Malformed, int]:
    """What stands behind an opening tag, and where the text goes on."""
    call, end = _function(text, past_blank(text, at))
    if end is not None:
        behind = past_blank(text, end)
        if text.startswith(CLOSES, behind):
            return call, behind + len(CLOSES)
        if behind == len(text):
            return call, behind
        call = Malformed(f"behind {FUNCTION_CLOSES} comes no {CLOSES}")
    closed, opened = text.find(CLOSES, at), text.find(OPENS, at)
    if closed >= 0 and (opened < 0 or closed < opened):
        return call, closed + len(CLOSES)
    return call, opened if opened >= 0 else len(text)


def _function(text: str, at: int) -> tuple[Call | Malformed, int | None]:
    opened = _FUNCTION.match(text, at)
    if opened is None or not opened[1].strip():
        return Malformed(f"behind {OPENS} comes no <function=NAME>"), None
    name, at = opened[1].strip(), past_blank(text, opened.end())
    arguments: dict[str, Any] = {}
    while parameter := _PARAMETER.match(text, at):
        end = text.find(PARAMETER_CLOSES, parameter.end())
        if end < 0:
            return Malformed(f"<parameter={parameter[1]}> is not closed", name=name), None
        if parameter[1] in arguments:
            return Malformed(f"<parameter={parameter[1]}> comes twice", name=name), None
        value = text[parameter.end() : end].removeprefix("\n").removesuffix("\n")
        arguments[parameter[1]] = value
        at = past_blank(text, end + len(PARAMETER_CLOSES))
    if not text.startswith(FUNCTION_CLOSES, at):
        wrong = f"<function={name}> is not closed, or holds more than <parameter=...> tags"
        return Malformed(wrong, name=name), None
    return settled(Call(name, arguments, verbatim=True)), at + len(FUNCTION_CLOSES)


QWEN3_CODER = Format(
    read=read,
    write=write,
    answered=str,
    manual=(
        f"To call a tool, say {OPENS}<function=NAME><parameter=P>VALUE</parameter></function>"
        f"{CLOSES}, with a parameter for each argument, and once for each call. When you know "
        "the answer, say it alone, without a call."
    ),
    phrases=(OPENS, CLOSES, FUNCTION_CLOSES, PARAMETER_CLOSES, "<function=", "<parameter="),
)

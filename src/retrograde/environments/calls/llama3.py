"""Llama 3: an answer that is nothing but JSON objects is calls."""

from collections.abc import Sequence

from retrograde.environments.calls.call import Call, Format, Malformed, Said
from retrograde.environments.calls.json_call import call_at, json_text, past_blank

TAG = "<|python_tag|>"
KEYS = ("parameters", "arguments")
"""The format says `parameters`; its models say the other as well."""


def read(text: str) -> Said:
    """Everything behind the tag, or an answer that begins with a brace.

    Several calls stand behind one another, apart by semicolons or white space.
    """
    before, tag, behind = text.partition(TAG)
    if not tag:
        if not text.lstrip().startswith("{"):
            return Said((), text.strip())
        before, behind = "", text
    calls: list[Call | Malformed] = []
    at = past_blank(behind, 0)
    while at < len(behind) or not calls:
        call, end = call_at(behind, at, KEYS)
        calls.append(call)
        if end is None:
            break
        at = past_blank(behind, end)
        if behind.startswith(";", at):
            at = past_blank(behind, at + 1)
    return Said(tuple(calls), before.strip())


def write(words: str, calls: Sequence[Call]) -> str:
    """Words can only stand in front of the tag, which is left out where there are none."""
    said = "; ".join(json_text(call, KEYS[0]) for call in calls)
    return f"{words}{TAG}{said}" if words and calls else words + said


LLAMA3 = Format(
    read=read,
    write=write,
    answered=str,
    manual=(
        'To call a tool, say nothing but {"name": NAME, "parameters": {...}}. When you know the '
        "answer, say it alone, in words."
    ),
    phrases=(TAG,),
)

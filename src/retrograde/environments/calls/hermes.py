"""Hermes and Qwen: a JSON object between tags, as often as there are calls."""

from collections.abc import Sequence

from retrograde.environments.calls.call import Call, Format, Malformed, Said
from retrograde.environments.calls.json_call import call_at, json_text, past_blank

OPENS, CLOSES = "<tool_call>", "</tool_call>"


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
    if CLOSES in around:
        calls.append(Malformed(f"{CLOSES} stands where no {OPENS} is open"))
        around = around.replace(CLOSES, "").strip()
    return Said(tuple(calls), around)


def write(words: str, calls: Sequence[Call]) -> str:
    """Words first, then the calls."""
    blocks = [f"{OPENS}\n{json_text(call, 'arguments')}\n{CLOSES}" for call in calls]
    return "\n".join([words, *blocks] if words else blocks)


def _block(text: str, at: int) -> tuple[Call | Malformed, int]:
    """What stands behind an opening tag, and where the text goes on."""
    call, end = call_at(text, at, ("arguments",))
    if end is not None:
        behind = past_blank(text, end)
        if text.startswith(CLOSES, behind):
            return call, behind + len(CLOSES)
        if behind == len(text):
            return call, behind
        call = Malformed(f"behind the JSON object comes no {CLOSES}")
    closed, opened = text.find(CLOSES, at), text.find(OPENS, at)
    if closed >= 0 and (opened < 0 or closed < opened):
        return call, closed + len(CLOSES)
    return call, opened if opened >= 0 else len(text)


HERMES = Format(
    read=read,
    write=write,
    answered=str,
    manual=(
        f'To call a tool, say {OPENS}{{"name": NAME, "arguments": {{...}}}}{CLOSES}, once for '
        "each call. When you know the answer, say it alone, without a call."
    ),
    phrases=(OPENS, CLOSES),
)

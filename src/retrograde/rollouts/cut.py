"""Observations that are too long: their middles are left out."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from retrograde.data.message import Message

CHARACTERS_A_TOKEN = 16
"""More than this, on average, no tokenizer puts into one; what is beyond is not even counted."""


def cut(
    messages: Sequence[Message], limit: int, tokens: Callable[[Sequence[Message]], int]
) -> tuple[Message, ...]:
    """The messages, if they take no more than so many tokens; otherwise without their middles.

    As many characters of each message are kept as can be, the same number of each that is
    longer, half from its beginning and half from its end. A marker says how many are missing.

    Args:
        messages: what the environment said.
        limit: most tokens.
        tokens: how many tokens messages take, template and all.
    """
    longest = max((len(message.content) for message in messages), default=0)
    kept = min(longest, limit * CHARACTERS_A_TOKEN)
    if kept == longest and tokens(messages) <= limit:
        return tuple(messages)
    least = 0
    while least < kept:
        middle = (least + kept + 1) // 2
        if tokens(_shortened(messages, middle)) <= limit:
            least = middle
        else:
            kept = middle - 1
    return _shortened(messages, kept)


def _shortened(messages: Sequence[Message], kept: int) -> tuple[Message, ...]:
    return tuple(replace(m, content=without_middle(m.content, kept)) for m in messages)


def without_middle(text: str, kept: int) -> str:
    """A text of which no more than so many characters are left."""
    if len(text) <= kept:
        return text
    first, last = (kept + 1) // 2, kept // 2
    marker = f"[... {len(text) - kept} characters left out ...]"
    return "\n".join(part for part in (text[:first], marker, text[len(text) - last :]) if part)

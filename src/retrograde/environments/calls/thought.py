"""What of an answer stands outside thought, wherever thought stands in it."""

import re

from retrograde.data.message import THOUGHT_CLOSES, THOUGHT_OPENS

_TAG = re.compile(f"{THOUGHT_OPENS}|{THOUGHT_CLOSES}")


def outside_thought(text: str, *, opened: bool = False) -> str:
    """The text without its thoughts.

    A thought that is not closed reaches to the end. One that is closed and was never opened
    reaches back to the start: some chat templates open it in the generation prompt. So nothing
    that may be thought is taken for speech.

    Args:
        text: an answer.
        opened: whether the template opens a thought in front of every answer, so that one
            without a closing tag is thought to its end.
    """
    kept: list[str] = []
    start, inside = 0, opened
    for tag in _TAG.finditer(text):
        if tag[0] == THOUGHT_OPENS:
            if not inside:
                kept.append(text[start : tag.start()])
            inside = True
            continue
        if not inside:
            kept.clear()
        start, inside = tag.end(), False
    if not inside:
        kept.append(text[start:])
    return "".join(kept).strip()

r"""ReAct tags: `<think>`, a tag named after a tool, `<answer>` with the answer boxed.

Search-R1 and AT2PO speak so: `<search>who wrote Dune</search>`, later
`<answer>\boxed{Frank Herbert}</answer>`.
"""

import re
from collections.abc import Sequence

from retrograde.environments.calls.call import SOLE, Call, Format, Malformed, Said, settled

ANSWER = "answer"
BOX = r"\boxed{"
_OPENS = re.compile(r"<([A-Za-z_]\w*)>")
_CLOSES = re.compile(r"</([A-Za-z_]\w*)>")


def read(text: str) -> Said:
    """The first pair of tags; what stands around it is words. Neither is a malformed call."""
    last = {tag[1]: tag.start() for tag in _CLOSES.finditer(text)}
    opened = list(_OPENS.finditer(text))
    found = next((tag for tag in opened if last.get(tag[1], -1) >= tag.end()), None)
    if found is None:
        wrong = f"<{opened[0][1]}> is not closed" if opened else f"no tool's tag and no <{ANSWER}>"
        return Said((Malformed(f"{wrong}: say one of them"),), text.strip())
    name, closing = found[1], f"</{found[1]}>"
    end = text.index(closing, found.end())
    inner = text[found.end() : end].strip()
    words = (text[: found.start()] + text[end + len(closing) :]).strip()
    if name == ANSWER:
        box = boxed(inner)
        return Said((), words, answer=inner if box is None else box)
    return Said((settled(Call(name, {SOLE: inner}, verbatim=True)),), words)


def write(words: str, calls: Sequence[Call]) -> str:
    """One call, in its tag.

    Raises:
        ValueError: there are several calls, or one has not exactly one argument.
    """
    if not calls:
        return words
    if len(calls) > 1 or len(calls[0].arguments) != 1:
        raise ValueError("this format says one call, of one argument, in an answer")
    (value,) = calls[0].arguments.values()
    said = f"<{calls[0].name}> {value} </{calls[0].name}>"
    return f"{words}\n{said}" if words else said


def answered(answer: str) -> str:
    """The answer, boxed."""
    return f"<{ANSWER}> {BOX}{answer}}} </{ANSWER}>"


def boxed(text: str) -> str | None:
    r"""What the last `\boxed{...}` holds, braces inside it counted; None if there is none."""
    start = text.rfind(BOX)
    if start < 0:
        return None
    depth, begin = 1, start + len(BOX)
    for at in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return text[begin:at].strip()
    return None


REACT = Format(
    read=read,
    write=write,
    answered=answered,
    manual=(
        "To call a tool, say <NAME> ARGUMENT </NAME>, one call a turn; what it found comes back. "
        rf"When you know the answer, say <{ANSWER}> {BOX}ANSWER}} </{ANSWER}>."
    ),
    is_marked=True,
    tells="user",
    listed_in="text",
    phrases=(f"<{ANSWER}>", f"</{ANSWER}>", BOX, "}"),
)

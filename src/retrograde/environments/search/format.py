r"""The tags of Search-R1, and the format that AT2PO rewards.

A turn is `<think> .. </think>` and then either `<search> .. </search>` or
`<answer> \boxed{..} </answer>`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from retrograde.data.message import THOUGHT_CLOSES, THOUGHT_OPENS, spoken

SEARCH_OPENS, SEARCH_CLOSES = "<search>", "</search>"
ANSWER_OPENS, ANSWER_CLOSES = "<answer>", "</answer>"
FOUND_OPENS, FOUND_CLOSES = "<information>", "</information>"
BOX_OPENS, BOX_CLOSES = "\\boxed{", "}"

_TAGGED = re.compile(r"<\s*(search|answer)\s*>(.*?)<\s*/\s*\1\s*>", re.DOTALL | re.IGNORECASE)
_BOX = re.compile(r"\\\s*boxed\s*\{")
_PLAIN_TEXT = re.compile(r"\\text\s*\{(.*)\}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Said:
    """What the policy's words ask for; nothing, if they mean nothing."""

    search: str | None = None
    """What to look for."""
    answer: str | None = None
    """All that stands between the tags."""

    @classmethod
    def of(cls, text: str) -> Self:
        """Read the first search or answer outside thought. One that holds nothing is none."""
        found = _TAGGED.search(spoken(text))
        content = "" if found is None else found[2].strip()
        if found is None or not content:
            return cls()
        if found[1].lower() == "search":
            return cls(search=" ".join(content.split()))
        return cls(answer=content)


def boxed(text: str) -> str | None:
    r"""What stands in the last `\\boxed{..}` that is closed, braces inside it included."""
    for start in reversed([found.end() for found in _BOX.finditer(text)]):
        depth = 1
        for i in range(start, len(text)):
            depth += {"{": 1, "}": -1}.get(text[i], 0)
            if depth == 0:
                content = text[start:i].strip()
                plain = _PLAIN_TEXT.fullmatch(content)
                return (plain[1] if plain else content).strip()
    return None


def is_formatted(turns: Sequence[str]) -> bool:
    r"""Whether all the policy said, turn after turn, is in the format that AT2PO rewards.

    As many thoughts are opened as closed, and at least one; as many searches; and there is one
    answer, with a closed box in it.

    Source: AT2PO, arXiv:2601.04767, Eq. 16, and the published code's `validate_format`.
    Differs from the source: what was found is not looked at, so no passage can spoil the format.
    """
    text = "\n".join(turns)
    thoughts, searches, answers = (
        (text.count(opens), text.count(closes))
        for opens, closes in (
            (THOUGHT_OPENS, THOUGHT_CLOSES),
            (SEARCH_OPENS, SEARCH_CLOSES),
            (ANSWER_OPENS, ANSWER_CLOSES),
        )
    )
    if thoughts[0] != thoughts[1] or not thoughts[0]:
        return False
    if searches[0] != searches[1] or answers != (1, 1):
        return False
    start, end = text.index(ANSWER_OPENS), text.index(ANSWER_CLOSES)
    return start < end and boxed(text[start:end]) is not None

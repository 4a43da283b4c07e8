"""Text of an environment, written so that nothing in it is read as a control token.

A page that a tool fetches may hold `<|im_end|>`. Encoded with the chat around it, that would end
the message and let the page speak in any role. So each such place is marked before the template
sees it, after its first character, and when the template's text is encoded it is cut there:
neither half is a control token. Text with no such place is not touched.
"""

import re
from collections.abc import Callable, Iterable

CUT = "\ue0c7\ue0c8"
"""Marks where text is cut; of the private use area, so that nobody says it."""


class Spelling:
    """How text that looks like control tokens is written."""

    def __init__(
        self,
        encode: Callable[[str], list[int]],
        control: Iterable[tuple[int, str]],
        *,
        tricky: bool = False,
    ) -> None:
        """Bind control tokens.

        Args:
            encode: a text to ids, control tokens and all.
            control: id and text of each control token.
            tricky: whether a token may be read out of other text than its own, because the
                text is normalised first.
        """
        self._encode = encode
        self.control = dict(control)
        self._tricky = tricky
        self._texts = {text for text in self.control.values() if len(text) > 1}
        self._lengths = sorted({len(text) for text in self._texts})
        first = "".join(re.escape(letter) for letter in sorted({text[0] for text in self._texts}))
        self._candidates = re.compile(f"[{first}]" if first else r"(?!)")

    def marked(self, text: str) -> str:
        """The text with marks where it has to be cut."""
        pieces: list[str] = []
        begin = 0
        # Each place is looked at, since tokens may overlap: <|a<|a|>.
        for candidate in self._candidates.finditer(text):
            at = candidate.start()
            if any(text[at : at + length] in self._texts for length in self._lengths):
                pieces.append(text[begin : at + 1])
                begin = at + 1
        marked = CUT.join([*pieces, text[begin:]])
        if self._tricky and any(
            not self.control.keys().isdisjoint(self._encode(piece)) for piece in marked.split(CUT)
        ):
            return CUT.join(text)
        return marked

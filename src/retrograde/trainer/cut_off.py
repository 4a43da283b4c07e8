"""Says aloud, once, that most answers run out of tokens.

An answer that is cut off before it says anything earns nothing, whatever it was going to say. A
run like that learns little or nothing and looks like any other.
"""

from collections.abc import Mapping

MOST = 0.5
IN_A_ROW = 3


class CutOff:
    """Watches an iteration's lines."""

    def __init__(self) -> None:
        """Have seen nothing yet."""
        self._in_a_row = 0
        self._told = False

    def warning(self, line: Mapping[str, float]) -> str | None:
        """What to say after this iteration; the same is not said twice in a run."""
        share = line.get("completions/clipped_ratio")
        if share is None:
            return None
        self._in_a_row = self._in_a_row + 1 if share > MOST else 0
        if self._told or self._in_a_row < IN_A_ROW:
            return None
        self._told = True
        return complaint(share)


def complaint(share: float) -> str:
    """In words, what share of an iteration's answers was cut off and what helps."""
    return (
        f"{share:.0%} of the answers ran out of tokens before they came to an end; what is cut off "
        f"is seldom right, so there is little to learn from. More room: --model.max-new-tokens; or "
        f"an instruction to be brief"
    )

"""Where in an answer's ids its thought ends and its words stand."""

from collections.abc import Callable, Sequence

from retrograde.data.message import THOUGHT_CLOSES

Decode = Callable[[Sequence[int]], str]


def behind_thought(ids: Sequence[int], decode: Decode) -> int:
    """Number of leading ids up to the first closing tag, included; 0 if there is none.

    An id that holds the end of the tag and words as well counts as thought.
    """
    if THOUGHT_CLOSES not in decode(ids):
        return 0
    first, last = 0, len(ids)
    while first < last:
        middle = (first + last) // 2
        if THOUGHT_CLOSES in decode(ids[:middle]):
            last = middle
        else:
            first = middle + 1
    return first


def behind_all_thought(ids: Sequence[int], decode: Decode) -> int:
    """Number of leading ids up to the last closing tag, included, as templates count."""
    behind = 0
    while more := behind_thought(ids[behind:], decode):
        behind += more
    return behind


def words_within(ids: Sequence[int], decode: Decode) -> tuple[int, int]:
    """Where words begin and end in ids: from the first id that is no white space to the last."""
    first, last = 0, len(ids)
    while first < last and not decode(ids[first : first + 1]).strip():
        first += 1
    while first < last and not decode(ids[last - 1 : last]).strip():
        last -= 1
    return first, last


def without_thought(ids: tuple[int, ...], decode: Decode) -> tuple[int, ...]:
    """The ids behind the first thought and the white space after it; all if there is none."""
    behind = behind_thought(ids, decode)
    if not behind:
        return ids
    while behind < len(ids) and decode(ids[behind : behind + 1]).isspace():
        behind += 1
    return ids[behind:]

"""A chat rendered anew by its template, with the sampled ids of its answers put into it.

The template is given a word in place of each answer, with a thought in front of it if the answer
has one, and its text shows what became of them. Where both are shown, the answer stands there as
it was sampled; where the word alone is, the answer's words do, cut off the sampled ids.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from retrograde.backends.template import Said
from retrograde.data.message import THOUGHT_CLOSES, THOUGHT_OPENS, Message
from retrograde.rendering.thought import Decode, behind_all_thought, words_within

Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """An answer, taken apart; its stop token is the template's business."""

    whole: Ids
    words: Ids
    """Without thought, and without white space around them that has ids of its own."""
    content: str
    """What the template is given."""
    word: str
    """Stands for the words."""
    thought: str
    """Stands for the thought, if there is one."""
    opens: bool
    """Whether it opens its thought itself; some templates do that in the generation prompt."""
    behind: str
    """White space behind the words."""


def spliced(
    chat: Sequence[Message | Ids],
    render: Callable[[Sequence[Said]], str],
    encoded: Callable[[str], Ids],
    taken_apart: Callable[[Ids, int], Part],
) -> Ids:
    """Ids of a chat as its template shows it.

    Args:
        chat: messages, and answers as sampled.
        render: the template's text of messages and answers' texts.
        encoded: ids of the template's text.
        taken_apart: an answer and its number.
    """
    parts = [taken_apart(said, n) for n, said in enumerate(chat) if not isinstance(said, Message)]
    rest = iter(parts)
    text = render([said if isinstance(said, Message) else next(rest).content for said in chat])
    ids: list[int] = []
    done = 0
    for part in parts:
        at = text.find(part.word, done)
        if at < 0:
            continue  # the template no longer shows this answer
        behind = at + len(part.word)
        thought = text.find(part.thought, done, at)
        if thought < 0:
            ids += [*encoded(text[done:at]), *part.words]
        else:
            opened = text.rfind(THOUGHT_OPENS, done, thought) if part.opens else -1
            ids += [*encoded(text[done : opened if opened >= 0 else thought]), *part.whole]
            behind += len(part.behind) if text.startswith(part.behind, behind) else 0
        done = behind
    return (*ids, *encoded(text[done:]))


def part_of(action: Ids, number: int, decode: Decode, stop_ids: frozenset[int]) -> Part:
    """Take an answer apart."""
    whole = action[:-1] if action and action[-1] in stop_ids else action
    start = behind_all_thought(whole, decode)
    first, last = (start + place for place in words_within(whole[start:], decode))
    word, thought = f"retrograde{number}words", f"retrograde{number}thought"
    before, behind = decode(whole[start:first]), decode(whole[last:])
    content = before + word + behind
    if start:
        content = f"{THOUGHT_OPENS}\n{thought}\n{THOUGHT_CLOSES}{content}"
    opens = THOUGHT_OPENS in decode(whole[:start])
    return Part(whole, whole[first:last], content, word, thought, opens, behind)

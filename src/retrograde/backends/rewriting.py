"""Whether a chat template only ever appends to a chat, or shows its past anew."""

from collections.abc import Callable, Sequence

from retrograde.backends.template import Said
from retrograde.data.message import THOUGHT_CLOSES, THOUGHT_OPENS, Message

ASKED = Message("user", "retrogradequestion")
WORDS, THOUGHT = "retrogradewords", "retrogradethought"
"""Stand in for what is said; plain words, which no template rewrites."""
THOUGHTFUL = f"{THOUGHT_OPENS}\n{THOUGHT}\n{THOUGHT_CLOSES}\n\n{WORDS}"
TOOL_NAME = "retrogradetool"
TOOL = (
    f'{{"type": "function", "function": {{"name": "{TOOL_NAME}", "description": "x", '
    '"parameters": {"type": "object", "properties": {}}}}'
)
RULES = Message("system", "retrograderules", tools=(TOOL,))
REPLIES = {"user": ASKED, "tool": Message("tool", "retrogradereply", name=TOOL_NAME)}

Text = Callable[[Sequence[Said]], str]
"""The template's text of a chat, generation prompt included."""


def opens_thought(text: Text) -> bool:
    """Whether the generation prompt opens a thought, so that an answer begins inside it."""
    return text([ASKED]).rstrip().endswith(THOUGHT_OPENS)


def drops_thoughts(text: Text) -> bool:
    """Whether the thought of an answer is no longer shown once the user speaks again."""
    return THOUGHT not in text([ASKED, THOUGHTFUL, ASKED])


def rewriting(text: Text) -> tuple[str, ...]:
    """What a template shows otherwise once a chat has gone on, in words; nothing if it appends.

    An answer that is sampled is followed by what the environment says. If the text of all that
    does not begin with the text before and the answer, the template has rewritten the past.
    """
    before = text([ASKED])
    sampled = THOUGHTFUL
    if opens_thought(text):
        sampled = THOUGHTFUL.removeprefix(THOUGHT_OPENS).lstrip()
    found: list[str] = []
    for role, reply in REPLIES.items():
        after = text([ASKED, THOUGHTFUL, reply])
        if THOUGHT not in after:
            found.append(f"drops the thought of an answer once a {role} message follows")
        elif not _goes_on(after, before, sampled):
            found.append(f"shows a thought otherwise once a {role} message follows")
    if not _goes_on(text([ASKED, WORDS, ASKED]), before, WORDS):
        found.append("shows before an earlier answer something else than its generation prompt")
    longer = text([RULES, ASKED, WORDS, ASKED])
    if max(longer.find(RULES.content), longer.find(TOOL_NAME)) > longer.find(WORDS):
        found.append("moves rules or tools towards the end as the chat goes on")
    return tuple(found)


def _goes_on(after: str, before: str, answer: str) -> bool:
    """Whether a text begins with another and an answer; a space between is part of the answer."""
    return after.startswith(before) and after[len(before) :].lstrip().startswith(answer)

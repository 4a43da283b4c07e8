"""Messages of a chat, and what of an answer was said aloud."""

from dataclasses import dataclass
from typing import Literal

ContextPolicy = Literal["full", "drop_thinking", "window", "markov"] | str  # noqa: PYI051 - for --help
"""What is kept of the past. full: everything. drop_thinking: everything but the thoughts in
earlier answers. window: the opening and the last answer, without its thought, with what came
of it; window(N): the last N of them. summarise(FILE.py:NAME): as window, and a summary of what
it leaves out, written by that function. markov: the lasting messages of the opening and the
last observation. Text, so that a command line and a manifest can hold it;
`retrograde.rendering.context` reads it."""

THOUGHT_OPENS = "<think>"
THOUGHT_CLOSES = "</think>"


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a chat."""

    role: Literal["system", "user", "assistant", "tool"]
    """An assistant's message stands in an opening alone: words that the policy is shown as its
    own and did not say."""
    content: str
    lasting: bool = False
    """Whether the `markov` context policy, which forgets everything but the last
    observation, still shows it: rules and questions last, observations do not."""
    tools: tuple[str, ...] = ()
    """On a system message of the opening: what may be called, each as the JSON text of
    `{"type": "function", "function": {"name", "description", "parameters"}}`."""
    name: str | None = None
    """On a tool message: the tool that says it."""


def spoken(text: str) -> str:
    """The words outside thought: what follows the last closing tag, or precedes an open one."""
    _, closed, after = text.rpartition(THOUGHT_CLOSES)
    if closed:
        return after.strip()
    return text.partition(THOUGHT_OPENS)[0].strip()

"""Hop as TRL is to play it: an environment with one tool, and a tokenizer that knows calls.

TRL itself is not needed here.
"""

from collections.abc import Coroutine
from typing import Any, TypeVar

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from retrograde.environments.hop import ANSWER, Hop, HopEpisode, Question

T = TypeVar("T")
CALLS = (
    "{%- for call in message.tool_calls or [] -%}"
    "{{- call.function.name ~ call.function.arguments -}}"
    "{%- endfor -%}"
)
"""For a template that has no calls. TRL asks for it, and never renders a real one."""
PARSED = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|assistant|>",
    "fields": {
        "tool_calls": {
            # From the very start on, as soon as it is known that no answer is given.
            "open_pattern": rf"\A(?![\s\S]*\b{ANSWER}\b)(?=[\s\S])",
            "close_pattern": r"<\|end\|>\s*",
            "repeats": True,
            "content": "text",
            "transform": {
                "type": "function",
                "function": {"name": "say", "arguments": {"words": "{content}"}},
            },
        },
        "content": {"close_pattern": r"<\|end\|>\s*", "content": "text"},
    },
}
"""How what was said is read."""


def at_once(call: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns that waits for nothing."""
    try:
        call.send(None)
    except StopIteration as end:
        return end.value
    raise RuntimeError("the environment waits for something, and nobody here would wake it")


class HopTools:
    """Hop as TRL wants an environment."""

    def __init__(self) -> None:
        """No episode yet."""
        self._episode: HopEpisode | None = None

    def reset(self, task: str, **_: Any) -> None:
        """Begin a task."""
        self._episode = HopEpisode(task, Question.of(task, Hop().hops))

    def say(self, words: str) -> str:
        """Say something.

        Args:
            words: what is said.
        """
        heard = at_once(self._current().act(words)).messages
        return "\n".join(message.content for message in heard)

    def _current(self) -> HopEpisode:
        if self._episode is None:
            raise RuntimeError("nothing was begun: reset it first")
        return self._episode

    def _earned(self, last: str) -> float:
        if self._current().over:
            return 0.0
        return at_once(self._current().act(last)).reward


def earned(environments: list[HopTools], completions: list[Any], **_: Any) -> list[float]:
    """What the last words earn. `get_reward` would not be told them: they are no call of a tool."""
    return [
        environment._earned(said[-1]["content"])  # noqa: SLF001 - not a tool, so it has no name
        for environment, said in zip(environments, completions, strict=True)
    ]


def taught(folder: str) -> PreTrainedTokenizerBase:
    """The policy's tokenizer, which can also write calls of tools and read them."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    said = "message['content']"
    tokenizer.chat_template = tokenizer.chat_template.replace(
        f"{said} + '<|end|>' -}}}}", f"{said} -}}}}{CALLS}{{{{- '<|end|>' -}}}}"
    )
    tokenizer.response_template = PARSED
    return tokenizer

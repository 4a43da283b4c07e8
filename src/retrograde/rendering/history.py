"""Context policies: which of the past the policy is shown at a turn.

A history keeps what was said as token ids, answers exactly as they were sampled. A
context is put together from those pieces; nothing sampled is decoded and encoded again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from retrograde.data.message import THOUGHT_CLOSES, ContextPolicy, Message
from retrograde.rendering.protocol import ChatTokenizer


@dataclass(frozen=True, slots=True)
class Exchange:
    """An answer and what the environment said to it."""

    action: tuple[int, ...]
    """As sampled."""
    kept: tuple[int, ...]
    """The answer's own ids behind its thought; all of it if there is none."""
    reply: tuple[int, ...]
    """The environment's words, up to the next generation prompt."""


@dataclass(frozen=True, slots=True)
class History:
    """A chat up to a generation prompt."""

    opening: tuple[int, ...]
    exchanges: tuple[Exchange, ...]
    memoryless: tuple[int, ...]
    """Lasting opening messages and the last observation, rendered as an opening."""
    lasting: tuple[Message, ...]
    """The lasting messages of the opening."""

    @property
    def observation(self) -> tuple[int, ...]:
        """What the last exchange appends to a flat history; the opening if there is none."""
        return self.exchanges[-1].reply if self.exchanges else self.opening


class Renderer:
    """Turns a chat into contexts under one context policy."""

    def __init__(self, tokenizer: ChatTokenizer, policy: ContextPolicy) -> None:
        """Bind a tokenizer and a context policy."""
        self.tokenizer = tokenizer
        self.policy = policy

    def open(self, messages: Sequence[Message]) -> History:
        """A chat before its first answer."""
        opening = self.tokenizer.opening(messages)
        return History(opening, (), opening, tuple(m for m in messages if m.lasting))

    def answered(
        self, history: History, action: tuple[int, ...], messages: Sequence[Message]
    ) -> History:
        """The chat after an answer and the environment's words.

        An answer that ran out of tokens lacks its stop token; the template's is put in
        front of the reply, where it is not trained.
        """
        reply = self.tokenizer.reply(messages)
        if action[-1] not in self.tokenizer.stop_ids:
            reply = (self.tokenizer.end_of_turn, *reply)
        memoryless = history.memoryless
        if self.policy == "markov":
            memoryless = self.tokenizer.opening((*history.lasting, *messages))
        exchange = Exchange(action, self._without_thought(action), reply)
        return replace(history, exchanges=(*history.exchanges, exchange), memoryless=memoryless)

    def context(self, history: History) -> tuple[int, ...]:
        """All token ids the policy is shown at this point."""
        if self.policy == "markov":
            return history.memoryless
        shown = history.exchanges[-1:] if self.policy == "window" else history.exchanges
        ids = list(history.opening)
        for exchange in shown:
            ids += exchange.action if self.policy == "full" else exchange.kept
            ids += exchange.reply
        return tuple(ids)

    def _without_thought(self, action: tuple[int, ...]) -> tuple[int, ...]:
        if self.policy in ("full", "markov") or not self._thinks(action):
            return action
        first, last = 0, len(action)
        while first < last:
            middle = (first + last) // 2
            if self._thinks(action[:middle]):
                last = middle
            else:
                first = middle + 1
        return action[first:]

    def _thinks(self, action: tuple[int, ...]) -> bool:
        return THOUGHT_CLOSES in self.tokenizer.decode(action)

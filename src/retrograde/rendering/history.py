"""Histories: what was said so far, and what of it a context policy shows.

A history keeps what was said as token ids, answers exactly as they were sampled. A
context is put together from those pieces; nothing sampled is decoded and encoded again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from retrograde.data.message import ContextPolicy, Message
from retrograde.rendering.context import Shown, shown_under
from retrograde.rendering.protocol import ChatTokenizer
from retrograde.rendering.thought import without_thought

REMEMBERED = 1 << 14
"""Answers of which it is kept what later contexts show."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """An answer and what the environment said to it."""

    action: tuple[int, ...]
    """As sampled."""
    kept: tuple[int, ...]
    """The ids of it that later contexts show."""
    reply: tuple[int, ...]
    """The environment's words, up to the next generation prompt."""
    messages: tuple[Message, ...]
    """The environment's words, as it said them."""


@dataclass(frozen=True, slots=True)
class History:
    """A chat up to a generation prompt."""

    opening: tuple[int, ...]
    messages: tuple[Message, ...]
    """The opening, as the environment said it."""
    exchanges: tuple[Exchange, ...]

    @property
    def observation(self) -> tuple[int, ...]:
        """What the last exchange appends to a flat history; the opening if there is none."""
        return self.exchanges[-1].reply if self.exchanges else self.opening


class Renderer:
    """Turns a chat into contexts under one context policy."""

    def __init__(self, tokenizer: ChatTokenizer, policy: ContextPolicy | Shown) -> None:
        """Bind a tokenizer and a context policy.

        Raises:
            ValueError: there is no such policy.
        """
        self.tokenizer = tokenizer
        self.shown = shown_under(policy)
        self._kept = lru_cache(REMEMBERED)(self._kept_of)

    @property
    def keeps_what_the_template_rewrites(self) -> bool:
        """Whether contexts differ from what the template, asked anew each turn, would show."""
        whole = self.shown.opening and self.shown.thoughts and self.shown.exchanges is None
        return whole and self.tokenizer.rewrites

    def open(self, messages: Sequence[Message]) -> History:
        """A chat before its first answer."""
        return History(self.tokenizer.opening(messages), tuple(messages), ())

    def answered(
        self, history: History, action: tuple[int, ...], messages: Sequence[Message]
    ) -> History:
        """The chat after an answer and the environment's words.

        An answer that ran out of tokens lacks its stop token; the template's is put in
        front of the reply, where it is not trained.
        """
        reply = self.tokenizer.reply(messages)
        if action[-1] not in self.tokenizer.stop_ids:
            reply = (self.tokenizer.end_of_earlier_turn, *reply)
        exchange = Exchange(action, self._kept(action), reply, tuple(messages))
        return History(history.opening, history.messages, (*history.exchanges, exchange))

    def context(self, history: History) -> tuple[int, ...]:
        """All token ids the policy is shown at this point."""
        if not history.exchanges:
            return history.opening
        if not self.shown.opening:
            lasting = (message for message in history.messages if message.lasting)
            return self.tokenizer.opening((*lasting, *history.exchanges[-1].messages))
        exchanges = history.exchanges
        if self.shown.exchanges is not None:
            exchanges = exchanges[-self.shown.exchanges :]
        opening = self._opening(history, len(history.exchanges) - len(exchanges))
        if self.tokenizer.rewrites and not self.shown.thoughts:
            chat: list[Message | tuple[int, ...]] = [*opening]
            for exchange in exchanges:
                chat += [exchange.action, *exchange.messages]
            return self.tokenizer.rewritten(chat)
        ids = list(
            history.opening if opening is history.messages else self.tokenizer.opening(opening)
        )
        for exchange in exchanges:
            ids += exchange.kept
            ids += exchange.reply
        return tuple(ids)

    def _opening(self, history: History, left_out: int) -> tuple[Message, ...]:
        """The opening's messages, and the summary of the first exchanges if one is asked for."""
        if self.shown.summary is None or not left_out:
            return history.messages
        past: list[tuple[str, str]] = []
        for exchange in history.exchanges[:left_out]:
            past.append(("assistant", self.tokenizer.decode(exchange.action)))
            past += [(message.role, message.content) for message in exchange.messages]
        summary = self.shown.summary(past)
        if not isinstance(summary, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"summarise: a text is needed from the function, got {summary!r}")
        return (*history.messages, Message("user", summary)) if summary else history.messages

    def _kept_of(self, action: tuple[int, ...]) -> tuple[int, ...]:
        """What later contexts show of an answer."""
        ends = action[-1] in self.tokenizer.stop_ids
        words, end = (action[:-1], action[-1:]) if ends else (action, ())
        if end == (self.tokenizer.end_of_turn,):
            end = (self.tokenizer.end_of_earlier_turn,)
        if not self.shown.thoughts:
            words = without_thought(words, self.tokenizer.decode)
        return (*words, *end)

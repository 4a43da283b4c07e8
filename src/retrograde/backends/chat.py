"""Any `transformers` tokenizer with a chat template, as rendering needs it.

A template is a program, so nothing is assumed of it: what it puts behind an answer is found
by rendering an answer and looking.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import cast

from transformers import PreTrainedTokenizerBase

from retrograde.backends.stops import Stops, behind_an_answer
from retrograde.data.message import Message

REMEMBERED = 1 << 16
"""Texts whose ids are kept; an environment says the same things over and over."""


class TransformersChat:
    """Messages to token ids, by the tokenizer's own chat template."""

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        generation_eos: int | Sequence[int] | None = None,
    ) -> None:
        """Bind a tokenizer.

        Args:
            tokenizer: one with a chat template.
            generation_eos: the model's `generation_config.eos_token_id`, if it has one; these
                end an answer as well.

        Raises:
            ValueError: there is no chat template, or it puts no stop token behind an answer.
        """
        self.tokenizer = tokenizer
        self.stops = Stops.of(tokenizer, generation_eos)
        self.stop_ids = self.stops.ids
        self.end_of_turn = self.stops.end_of_turn
        self._opening = lru_cache(REMEMBERED)(self._rendered_opening)
        self._reply = lru_cache(REMEMBERED)(self._rendered_reply)
        self._decoded = lru_cache(REMEMBERED)(self._text_of)

    def opening(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Token ids of a chat's first messages, with the generation prompt behind them."""
        return self._opening(tuple(messages))

    def reply(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Token ids from behind an answer's stop token up to the next generation prompt."""
        return self._reply(tuple(messages))

    def decode(self, ids: Sequence[int]) -> str:
        """The text of sampled ids, stop ids left out.

        Other special tokens are kept: an answer with a role marker in it is not well-formed.
        """
        return self._decoded(tuple(ids))

    def said(self, text: str) -> tuple[int, ...]:
        """An answer of these words, as if it had been sampled; for answers nobody sampled."""
        return (*self._encoded(text), self.end_of_turn)

    def _text_of(self, ids: tuple[int, ...]) -> str:
        kept = [token for token in ids if token not in self.stop_ids]
        return cast("str", self.tokenizer.decode(kept, clean_up_tokenization_spaces=False))

    def _rendered_opening(self, messages: tuple[Message, ...]) -> tuple[int, ...]:
        chat = [{"role": m.role, "content": m.content} for m in messages]
        return self._encoded(self._render(chat, prompted=True))

    def _rendered_reply(self, messages: tuple[Message, ...]) -> tuple[int, ...]:
        chat = [{"role": m.role, "content": m.content} for m in messages]
        behind = behind_an_answer(self.tokenizer, chat, prompted=True)
        # The stop token is encoded with the rest and then taken off, because some tokenizers
        # put a space in front of a text that begins without one.
        first, *ids = self._encoded(behind)
        if first not in (self.stops.end_of_turn, self.stops.end_between):
            raise ValueError(
                f"{self.tokenizer.name_or_path}: the chat template puts a stop token behind "
                f"answers, but {behind[:40]!r} behind one that is followed by {chat}"
            )
        return tuple(ids)

    def _render(self, chat: list[dict[str, str]], *, prompted: bool) -> str:
        text = self.tokenizer.apply_chat_template(
            chat, tokenize=False, add_generation_prompt=prompted
        )
        return cast("str", text)

    def _encoded(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer.encode(text, add_special_tokens=False))

"""Any `transformers` tokenizer with a chat template, as rendering needs it.

A template is a program, so nothing is assumed of it: what it puts behind an answer is found
by rendering an answer and looking.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import cast

from transformers import PreTrainedTokenizerBase

from retrograde.data.message import Message

QUESTION = "retrogradequestion"
SENTINEL = "retrogradeanswer"
"""Stand in for a chat whose answer is looked for; plain words, which no template rewrites."""
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
        if tokenizer.chat_template is None:
            raise ValueError(
                f"{tokenizer.name_or_path}: a tokenizer with a chat template is needed, "
                "and this one has none; instruction-tuned models usually do"
            )
        self.tokenizer = tokenizer
        self.end_of_turn = self._stop_token_behind_an_answer()
        self._end_text = tokenizer.added_tokens_decoder[self.end_of_turn].content
        stops = {self.end_of_turn}
        if isinstance(tokenizer.eos_token_id, int):
            stops.add(tokenizer.eos_token_id)
        if generation_eos is not None:
            stops.update([generation_eos] if isinstance(generation_eos, int) else generation_eos)
        self.stop_ids = frozenset(stops)
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
        behind = self._behind_an_answer(chat, prompted=True)
        # The stop token is encoded with the rest and then taken off, because some tokenizers
        # put a space in front of a text that begins without one.
        first, *ids = self._encoded(behind)
        if first != self.end_of_turn:
            raise ValueError(
                f"{self.tokenizer.name_or_path}: the chat template puts {self._end_text!r} behind "
                f"the last answer, but {behind[:40]!r} behind one that is followed by {chat}"
            )
        return tuple(ids)

    def _stop_token_behind_an_answer(self) -> int:
        behind = self._behind_an_answer([], prompted=False)
        added = self.tokenizer.added_tokens_decoder
        fitting = [number for number, token in added.items() if behind.startswith(token.content)]
        if not fitting:
            raise ValueError(
                f"{self.tokenizer.name_or_path}: a chat template that puts a stop token behind "
                f"an answer is needed, but this one puts {behind!r} there"
            )
        return max(fitting, key=lambda number: len(added[number].content))

    def _behind_an_answer(self, following: list[dict[str, str]], *, prompted: bool) -> str:
        chat = [
            {"role": "user", "content": QUESTION},
            {"role": "assistant", "content": SENTINEL},
            *following,
        ]
        _, found, behind = self._render(chat, prompted=prompted).partition(SENTINEL)
        if not found:
            raise ValueError(
                f"{self.tokenizer.name_or_path}: the chat template leaves out what an assistant "
                "says, so no chat of several turns can be shown"
            )
        return behind.lstrip()  # some templates put a space between an answer and its stop token

    def _render(self, chat: list[dict[str, str]], *, prompted: bool) -> str:
        text = self.tokenizer.apply_chat_template(
            chat, tokenize=False, add_generation_prompt=prompted
        )
        return cast("str", text)

    def _encoded(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer.encode(text, add_special_tokens=False))

"""Any `transformers` tokenizer with a chat template, as rendering needs it.

A template is a program, so nothing is assumed of it: what it puts behind an answer is found
by rendering an answer and looking.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import cast

from transformers import PreTrainedTokenizerBase

from retrograde.backends.rewriting import ASKED, WORDS, drops_thoughts, opens_thought, rewriting
from retrograde.backends.spelling import CUT, Spelling
from retrograde.backends.splice import Part, part_of, spliced
from retrograde.backends.stops import Stops
from retrograde.backends.template import ChatTemplate, Said
from retrograde.data.message import THOUGHT_CLOSES, THOUGHT_OPENS, Message
from retrograde.rendering.thought import without_thought

RULES_ALONE = Message("system", "retrograderules")
TAGS = frozenset({THOUGHT_OPENS, THOUGHT_CLOSES})
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
        self.template = ChatTemplate(tokenizer)
        self.spelling = Spelling(self._encode, ())  # until it is known what controls
        self.stops = Stops.of(tokenizer, generation_eos)
        self.stop_ids = self.stops.ids
        self.end_of_turn = self.stops.end_of_turn
        self.end_of_earlier_turn = self.stops.end_between
        self._end_text = self._added(self.end_of_turn)
        self.spelling = self._control()
        self.opens_thought = opens_thought(self._text)
        self.drops_thoughts = drops_thoughts(self._text)
        self.rewriting = rewriting(self._text)
        if self.end_of_turn != self.end_of_earlier_turn:
            ends = f"{self._added(self.end_of_earlier_turn)!r}, the last with {self._end_text!r}"
            self.rewriting += (f"ends an earlier answer with {ends}",)
        self.rewrites = bool(self.rewriting)
        self._opening = lru_cache(REMEMBERED)(self._rendered_opening)
        self._reply = lru_cache(REMEMBERED)(self._rendered_reply)
        self._decoded = lru_cache(REMEMBERED)(self._text_of)
        self._pieces = lru_cache(REMEMBERED)(self._encoded)

    def opening(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Token ids of a chat's first messages, with the generation prompt behind them."""
        return self._opening(tuple(messages))

    def reply(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Token ids from behind an answer's stop token up to the next generation prompt."""
        return self._reply(tuple(messages))

    def rewritten(self, chat: Sequence[Message | tuple[int, ...]]) -> tuple[int, ...]:
        """Token ids of a whole chat as the template shows it now, answers given as sampled."""
        return spliced(chat, self._text, self._pieces, self._taken_apart)

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
        return self._encoded(self._text(messages))

    def _rendered_reply(self, messages: tuple[Message, ...]) -> tuple[int, ...]:
        behind = self._behind_an_answer(messages, prompted=True)
        # The stop token is encoded with the rest and then taken off, because some tokenizers
        # put a space in front of a text that begins without one.
        first, *ids = self._encoded(behind)
        if first != self.end_of_earlier_turn:
            roles = " and ".join(message.role for message in messages)
            raise ValueError(
                f"{self.tokenizer.name_or_path}: the chat template puts "
                f"{self._added(self.end_of_earlier_turn)!r} behind an answer that a user message "
                f"follows, but {behind[:40]!r} behind one that is followed by {roles}"
            )
        return tuple(ids)

    def _behind_an_answer(self, following: Sequence[Message], *, prompted: bool) -> str:
        chat = [ASKED, WORDS, *following]
        text = self.template.text(chat, prompted=prompted, spell=self.spelling.marked)
        _, found, behind = text.partition(WORDS)
        if not found:
            raise ValueError(
                f"{self.tokenizer.name_or_path}: the chat template leaves out what an assistant "
                "says, so no chat of several turns can be shown"
            )
        return behind.lstrip()  # some templates put a space between an answer and its stop token

    def _text(self, chat: Sequence[Said]) -> str:
        return self.template.text(chat, prompted=True, spell=self.spelling.marked)

    def _taken_apart(self, action: tuple[int, ...], number: int) -> Part:
        if not self.drops_thoughts:
            action = without_thought(action, self.decode)
        return part_of(action, number, self.decode, self.stop_ids)

    def _control(self) -> Spelling:
        """Special tokens, stop tokens, and what the template itself puts around messages.

        The tags of a thought are none, unless the tokenizer calls them special: environments
        name them when they say how to answer.
        """
        frame = self.template.text([RULES_ALONE, ASKED, WORDS, ASKED], prompted=True)
        control = {
            number: token
            for number, token in self.tokenizer.added_tokens_decoder.items()
            if not token.content.isspace()
            and (
                token.special
                or number in self.stop_ids
                or (token.content in frame and _is_mark(token.content))
            )
        }
        return Spelling(
            self._encode,
            ((number, token.content) for number, token in control.items()),
            tricky=any(token.normalized for token in control.values()),
        )

    def _added(self, number: int) -> str:
        return self.tokenizer.added_tokens_decoder[number].content

    def _encoded(self, text: str) -> tuple[int, ...]:
        first, *others = text.split(CUT)
        ids = self._encode(first)
        for piece in others:
            # Behind a stop token, for the reason given above.
            ids += self._encode(self._end_text + piece)[1:]
        return tuple(ids)

    def _encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False)


def _is_mark(token: str) -> bool:
    return token not in TAGS and not token.isalnum()

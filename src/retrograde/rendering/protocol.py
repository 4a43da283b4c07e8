"""What rendering asks of a tokenizer that speaks a chat template."""

from collections.abc import Sequence
from typing import Protocol

from retrograde.data.message import Message


class ChatTokenizer(Protocol):
    """Messages to token ids. Text the policy sampled never passes through it again."""

    stop_ids: frozenset[int]
    """Any of these, sampled, ends an answer."""
    end_of_turn: int
    """The stop id that the template puts after an assistant's message."""

    def opening(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Token ids of a chat's first messages, with the generation prompt behind them."""
        ...

    def reply(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Token ids from behind an answer's stop token up to the next generation prompt."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text of sampled ids, stop ids left out, for the environment to read."""
        ...

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
    end_of_earlier_turn: int
    """What it puts there once the chat has gone on; for nearly every template the same."""
    rewrites: bool
    """Whether the template shows a chat that has gone on otherwise than it did before, so that
    what a policy is shown at a turn may not begin with what it was shown at the last."""

    def opening(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Token ids of a chat's first messages, with the generation prompt behind them."""
        ...

    def reply(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Token ids from behind an answer's stop token up to the next generation prompt."""
        ...

    def rewritten(self, chat: Sequence[Message | tuple[int, ...]]) -> tuple[int, ...]:
        """Token ids of a whole chat as the template shows it now, answers given as sampled.

        Thoughts in earlier answers are left out where the template itself leaves them out; if
        it never does, all are. What is shown of an answer are ids that were sampled.
        """
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text of sampled ids, stop ids left out, for the environment to read."""
        ...

"""What a world says, looked at before anything believes it."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

from retrograde.data.message import Message
from retrograde.data.tree import End
from retrograde.environments.protocol import Observation

ENDS = (None, End.FINISHED, End.TRUNCATED)
"""What an environment can say of the end; all others are the library's own."""


def checked(said: object) -> Observation:
    """An observation that is one, its figures floats.

    Raises:
        TypeError: it, or a part of it, is of another type.
        ValueError: it says nothing though the episode goes on, ends as only the library ends
            an episode, or has characters in it that no text has (`UnicodeEncodeError`).
    """
    if not isinstance(said, Observation):
        raise TypeError(f"an Observation is needed, got {said!r:.80}")
    if said.end not in ENDS:
        raise ValueError(
            f"end: FINISHED, TRUNCATED or None is needed, got {said.end!r:.80}; what breaks raises"
        )
    messages = told(said.messages)
    if said.end is None and not messages:
        raise ValueError("it said nothing though the episode goes on")
    is_as_needed = (
        messages is said.messages
        and type(said.reward) is float
        and (said.score is None or type(said.score) is float)
        and said.events == said.measures == ()
    )
    if is_as_needed:  # as in nearly every turn; a copy would say the same
        return said
    return replace(
        said,
        messages=messages,
        reward=float(said.reward),
        score=None if said.score is None else float(said.score),
        events=tuple(_text(name, "events") for name in said.events),
        measures=tuple((_text(name, "measures"), float(value)) for name, value in said.measures),
    )


def told(messages: object) -> tuple[Message, ...]:
    """Messages that are some.

    Raises:
        TypeError: they, or their words, are of another type.
        UnicodeEncodeError: characters that no text has, such as half of a pair.
    """
    if not isinstance(messages, (tuple, list)):
        raise TypeError(f"messages: a tuple of Message is needed, got {messages!r:.80}")
    for message in cast("Iterable[Any]", messages):
        if not isinstance(message, Message):
            raise TypeError(f"messages: a Message is needed, got {message!r:.80}")
        _text(message.content, "a message's content")
    return tuple(cast("Iterable[Message]", messages))


def _text(words: object, what: str) -> str:
    if not isinstance(words, str):
        raise TypeError(f"{what}: text is needed, got {words!r:.80}")
    words.encode()
    return words

"""Stop ids: the tokens that end an answer, and the token that pads.

A model names its stop tokens in up to three places, and no two of them need to agree: its
generation config, its tokenizer, and what its chat template puts behind an answer. Any of
them ends an answer. The one that was sampled belongs to the answer, with its log-probability.

What is padding is never told from the ids: see `backends.padding`. So a stop token may pad.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from transformers import GenerationConfig, PreTrainedConfig, PreTrainedTokenizerBase

from retrograde.backends.template import COMPLAINTS

QUESTION = "retrogradequestion"
SENTINEL = "retrogradeanswer"
"""Stand in for a chat whose answer is looked for; plain words, which no template rewrites."""
UNUSED = ("pad", "reserved", "unused")
"""In the names of tokens that were made to be taken for this."""


@dataclass(frozen=True, slots=True)
class Stops:
    """What ends an answer of one model."""

    ids: frozenset[int]
    """Any of these, sampled, ends an answer."""
    end_of_turn: int
    """What the chat template puts behind the last answer of a chat."""
    end_between: int
    """What it puts behind an answer that a message follows; mostly the same."""

    @classmethod
    def of(
        cls, tokenizer: PreTrainedTokenizerBase, generation_eos: int | Sequence[int] | None = None
    ) -> "Stops":
        """Gather them.

        Args:
            tokenizer: one with a chat template.
            generation_eos: the model's `generation_config.eos_token_id`, if it has one.

        Raises:
            ValueError: there is no chat template, it leaves answers out, or it puts no stop
                token behind them.
        """
        if tokenizer.chat_template is None:
            raise ValueError(
                f"{tokenizer.name_or_path}: a tokenizer with a chat template is needed, "
                "and this one has none; instruction-tuned models usually do"
            )
        last = _token_in_front(tokenizer, behind_an_answer(tokenizer, []))
        between = _token_in_front(
            tokenizer, behind_an_answer(tokenizer, [{"role": "user", "content": QUESTION}])
        )
        named = [generation_eos] if isinstance(generation_eos, int) else generation_eos or ()
        eos = tokenizer.eos_token_id
        found = {last, between, *named, *([eos] if isinstance(eos, int) else [])}
        return cls(frozenset(found), last, between)


def behind_an_answer(
    tokenizer: PreTrainedTokenizerBase, following: list[dict[str, str]], *, prompted: bool = False
) -> str:
    """What a chat template puts behind an answer that these messages follow.

    Raises:
        ValueError: it takes no such chat, or leaves out what an assistant says.
    """
    chat = [
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": SENTINEL},
        *following,
    ]
    try:
        text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=prompted)
    except COMPLAINTS as cause:
        raise ValueError(
            f"{tokenizer.name_or_path}: the chat template takes no chat of user and assistant that "
            f"speak in plain text: {cause}"
        ) from cause
    _, found, behind = cast("str", text).partition(SENTINEL)
    if not found:
        raise ValueError(
            f"{tokenizer.name_or_path}: the chat template leaves out what an assistant "
            "says, so no chat of several turns can be shown"
        )
    return behind.lstrip()  # some templates put a space between an answer and its stop token


def _token_in_front(tokenizer: PreTrainedTokenizerBase, behind: str) -> int:
    added = tokenizer.added_tokens_decoder
    fitting = [number for number, token in added.items() if behind.startswith(token.content)]
    if not fitting:
        raise ValueError(
            f"{tokenizer.name_or_path}: a chat template that puts a stop token behind "
            f"an answer is needed, but this one puts {behind!r} there"
        )
    return max(fitting, key=lambda number: len(added[number].content))


def generation_eos(source: str, config: PreTrainedConfig) -> int | list[int] | None:
    """What a model's generation config calls the end, before its weights are loaded."""
    try:
        return GenerationConfig.from_pretrained(source).eos_token_id
    except OSError:  # there is none, and transformers makes one of the model's own config
        return config.get_text_config().to_dict().get("eos_token_id")


def padding_id(tokenizer: PreTrainedTokenizerBase, stops: Stops, named: int | None) -> int:
    """A token that pads, out of those there are; the model's embeddings are not resized.

    Args:
        tokenizer: its own padding token comes first.
        stops: if nothing better is found, the end of a turn pads.
        named: the one of the model's config, which comes second.
    """
    own = tokenizer.pad_token_id
    if isinstance(own, int):
        return own
    if named is not None and 0 <= named < len(tokenizer):
        return named
    added = sorted(tokenizer.added_tokens_decoder.items())
    for word in UNUSED:
        for number, token in added:
            if word in token.content.lower() and number not in stops.ids:
                return number
    unknown = tokenizer.unk_token_id
    return unknown if isinstance(unknown, int) else stops.end_of_turn

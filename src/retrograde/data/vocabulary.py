"""The words of an environment, for a tokenizer that is made for it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Everything that an environment and its teacher say."""

    phrases: tuple[str, ...] = ()
    """Fixed text; each is one token, spaces and all, so that contexts are short."""
    words: tuple[str, ...] = ()
    """Every other word, as it is written. A word is a run of letters, digits and underscores,
    or a run of other signs: `can't` is three."""

"""Where passages are found: BM25 in this process, or a server that speaks as Search-R1's does."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from retrograde.environments.extras import extra

EXTRA = "search"
K1, B = 1.2, 0.75
"""BM25's own constants, as Lucene sets them."""
REMEMBERED = 1 << 16
"""Queries whose passages are kept; policies ask the same things over and over."""
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of text that can be found."""

    text: str
    title: str = ""
    keys: str = ""
    """Words it is found by, too, that are not shown."""

    @property
    def shown(self) -> str:
        """As the policy reads it."""
        return f"{self.title}: {self.text}" if self.title else self.text


class Retriever(Protocol):
    """Finds passages."""

    async def search(self, query: str, count: int) -> tuple[Passage, ...]:
        """The passages nearest to a query, at most so many, the nearest first."""
        ...


def words_of(text: str) -> list[str]:
    """The words of a text as they are compared: in lower case, without accents."""
    plain = unicodedata.normalize("NFKD", text.lower())
    return _WORD.findall("".join(sign for sign in plain if not unicodedata.combining(sign)))


class Bm25:
    """An index over passages that are all in memory.

    Source: Lucene's variant of BM25, as bm25s computes it.
    """

    def __init__(self, passages: Sequence[Passage]) -> None:
        """Index them.

        Raises:
            MissingExtraError: bm25s is not installed.
            ValueError: there are none.
        """
        if not passages:
            raise ValueError("passages: at least one is needed, got none")
        self.passages = tuple(passages)
        index: Any = extra("bm25s", EXTRA).BM25(method="lucene", k1=K1, b=B)
        texts = [words_of(f"{p.keys} {p.title} {p.text}") or [""] for p in self.passages]
        index.index(texts, show_progress=False)
        self._index: Any = index
        self._known: frozenset[str] = frozenset(index.vocab_dict)
        self._found = lru_cache(REMEMBERED)(self._best)

    async def search(self, query: str, count: int) -> tuple[Passage, ...]:
        """Passages that share a word with the query; those that tie, in the order of the index."""
        return self._found(tuple(words_of(query)), count)

    def _best(self, words: tuple[str, ...], count: int) -> tuple[Passage, ...]:
        known = [word for word in words if word in self._known]
        if not known:
            return ()
        scores: Any = self._index.get_scores(known)
        sharing = np.flatnonzero(scores > 0)
        order = np.argsort(-scores[sharing], kind="stable")[:count]
        best: list[int] = sharing[order].tolist()
        return tuple(self.passages[i] for i in best)

"""A retriever behind HTTP, as Search-R1's server speaks."""

import asyncio
import ssl
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from retrograde.environments.extras import extra
from retrograde.environments.search.layouts import Row, RowError, passage_of
from retrograde.environments.search.retriever import EXTRA, Passage

TRIES = 3
PAUSE_SECONDS = 0.25
"""Before the second try; twice that before the third."""
SERVER_ERROR = 500
"""Answers with this status or a higher one may be better the next time."""
QUOTED = 200
"""Characters of a wrong answer that a message repeats."""


class RetrieverError(RuntimeError):
    """A retriever that did not answer, or not with passages."""


@lru_cache(maxsize=1)
def _trusted() -> ssl.SSLContext:
    """Made once: reading the certificates takes longer than a search."""
    return ssl.create_default_context()


@dataclass(frozen=True)
class RemoteRetriever:
    """Asks a server: POST {"queries": [..], "topk": k, "return_scores": true}."""

    url: str
    seconds: float
    """Time limit of one try."""

    async def search(self, query: str, count: int) -> tuple[Passage, ...]:
        """What the server finds.

        Raises:
            MissingExtraError: httpx is not installed.
            RetrieverError: it did not answer in any of the tries, or with something else.
        """
        httpx: Any = extra("httpx", EXTRA)
        problem = ""
        for attempt in range(TRIES):
            if attempt:
                await asyncio.sleep(PAUSE_SECONDS * 2 ** (attempt - 1))
            try:
                status, text, told = await self._asked(httpx, query, count)
            except TimeoutError:
                problem = f"no answer within {self.seconds:g} s"
            except httpx.TransportError as cause:
                problem = f"{type(cause).__name__}: {cause}"
            else:
                if status < SERVER_ERROR:
                    return self._passages(status, text, told, count)
                problem = f"status {status}: {text[:QUOTED]!r}"
        raise RetrieverError(f"retriever {self.url}: {TRIES} tries, the last: {problem}")

    async def _asked(self, httpx: Any, query: str, count: int) -> tuple[int, str, Any]:
        """Status, text, and what the text means; None if it is not JSON."""
        asked = {"queries": [query], "topk": count, "return_scores": True}
        async with (
            asyncio.timeout(self.seconds),
            httpx.AsyncClient(verify=_trusted(), timeout=None) as client,
        ):
            response = await client.post(self.url, json=asked)
        try:
            return response.status_code, response.text, response.json()
        except ValueError:
            return response.status_code, response.text, None

    def _passages(self, status: int, text: str, told: Any, count: int) -> tuple[Passage, ...]:
        try:
            if status >= 400:  # noqa: PLR2004 - what HTTP calls an error
                raise RowError(f"status {status}")  # noqa: TRY301
            (found,) = told["result"]
            return tuple(_passage(entry) for entry in found[:count])
        except (RowError, TypeError, KeyError, ValueError, AttributeError) as cause:
            raise RetrieverError(
                f"retriever {self.url}: needed is an answer such as "
                '{"result": [[{"document": {"contents": "..."}, "score": 1.0}]]}, '
                f"got status {status}: {text[:QUOTED]!r} ({cause})"
            ) from cause


def _passage(entry: Any) -> Passage:
    """With its score, or without, which is how a server answers that was not asked for it."""
    row = cast("Row", entry)
    return passage_of(row.get("document", row))

"""A reward that another model gives, through any server that speaks OpenAI's chat protocol."""

import asyncio
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from retrograde.environments.extras import extra
from retrograde.rewards.record import Record

if TYPE_CHECKING:
    import httpx

RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
"""Statuses after which the same request may go well."""
LONGEST_WAIT_SECONDS = 30.0
QUESTION = """\
Judge how well the assistant did its task. The task and what happened:

{transcript}
{gold}
Think briefly. Then write, on a line of its own: Score: N, where N is a number from 0 (it failed)
to 10 (it did the whole task, and rightly)."""
_SCORE = re.compile(r"score\W*?(-?\d+(?:\.\d+)?)", re.IGNORECASE)


class JudgeError(RuntimeError):
    """The judge could not be asked, or did not answer with a score."""


@dataclass(frozen=True)
class Judge:
    """What another model thinks of a rollout, 0 to 1."""

    url: str
    """Where the protocol begins, such as `http://localhost:8000/v1`."""
    model: str
    """What the server calls the judge."""
    question: str = QUESTION
    """What it is asked; `{transcript}` and `{gold}` stand for the rollout and the right answer."""
    highest: float = 10.0
    """The score that counts as 1."""
    key: str = "OPENAI_API_KEY"
    """The environment variable that holds the server's key; none is sent if it is not set."""
    seconds: float = 30.0
    """Time limit of one request."""
    tries: int = 4
    """Requests before it is given up."""
    wait_seconds: float = 1.0
    """Before the second request; twice as long before each further one, half a minute at most."""
    max_tokens: int = 512
    """Tokens the judge may take."""

    def __post_init__(self) -> None:
        if self.tries < 1:
            raise ValueError(f"judge: tries: at least 1 is needed, got {self.tries}")
        if not self.url.startswith(("http://", "https://")):
            raise ValueError(f"judge: url: http:// or https:// is needed, got {self.url!r}")
        for name in ("highest", "seconds"):
            if not getattr(self, name) > 0:
                raise ValueError(f"judge: {name}: above 0 is needed, got {getattr(self, name)}")

    async def __call__(self, record: Record) -> float:
        """Ask.

        Raises:
            JudgeError: there was no score to be had.
        """
        gold = "" if record.gold is None else f"\nThe right answer: {record.gold}\n"
        asked = self.question.replace("{transcript}", transcript(record)).replace("{gold}", gold)
        said = await self._asked(asked)
        scores = _SCORE.findall(said)
        if not scores:
            raise JudgeError(f"{self.model} gave no score: {said[-200:]!r}")
        value = float(scores[-1]) / self.highest
        if not 0 <= value <= 1:
            raise JudgeError(f"{self.model} gave {scores[-1]}, which is not 0 to {self.highest:g}")
        return value

    async def _asked(self, question: str) -> str:
        library = cast("Any", extra("httpx", "judge"))
        key = os.environ.get(self.key)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        wanted = {
            "model": self.model,
            "messages": [{"role": "user", "content": question}],
            "temperature": 0.0,
            "max_tokens": self.max_tokens,
        }
        wait, problem = self.wait_seconds, ""
        async with library.AsyncClient(timeout=self.seconds, headers=headers) as client:
            for number in range(self.tries):
                if number:
                    await asyncio.sleep(min(wait, LONGEST_WAIT_SECONDS))
                    wait *= 2
                try:
                    answer: httpx.Response = await client.post(
                        f"{self.url.rstrip('/')}/chat/completions", json=wanted
                    )
                except library.TransportError as cause:
                    problem = f"{type(cause).__name__}: {cause}"
                    continue
                if answer.status_code in RETRIED:
                    problem = f"status {answer.status_code}: {answer.text[:200]}"
                    wait = max(wait, _asked_to_wait(answer.headers.get("Retry-After")))
                    continue
                return _words(answer)
        raise JudgeError(f"{self.url} did not answer {self.tries} requests; the last: {problem}")


def _asked_to_wait(said: str | None) -> float:
    return float(said) if said is not None and said.isdigit() else 0.0


def _words(answer: "httpx.Response") -> str:
    if answer.is_error:
        raise JudgeError(f"{answer.url}: status {answer.status_code}: {answer.text[:200]}")
    try:
        content = answer.json()["choices"][0]["message"]["content"]
    except (ValueError, LookupError, TypeError) as cause:
        raise JudgeError(f"{answer.url} answered with no message: {answer.text[:200]!r}") from cause
    if not isinstance(content, str):
        raise JudgeError(f"{answer.url} answered with no words: {content!r}")
    return content


def transcript(record: Record) -> str:
    """A rollout for people and judges: who said what, in order."""
    pieces: list[str] = []
    for turn in record.turns:
        pieces += [f"[{message.role}] {message.content}" for message in turn.shown]
        pieces.append(f"[assistant] {turn.answer}")
    pieces += [
        f"[{message.role}] {message.content}" for message in record.last.observation.messages
    ]
    return "\n\n".join(pieces)

"""Rewards for how answers look: form, length, and actions that were none."""

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase

from retrograde.rewards.record import Record


@dataclass(frozen=True)
class Format:
    """The share of a rollout's answers that look as they should."""

    pattern: str = ""
    """Regular expression that a whole answer matches, `.` taking line breaks, too."""
    tags: str = "think,answer"
    """Tags, with commas between them, that an answer has once each, in this order, and nothing
    outside them; only where there is no pattern."""

    def __post_init__(self) -> None:
        if not (self.pattern or self.tags):
            raise ValueError("format: a pattern or tags are needed, got neither")
        try:
            self._form()
        except re.error as cause:
            raise ValueError(
                f"format: {self.pattern!r} is no regular expression: {cause}"
            ) from cause

    def _form(self) -> re.Pattern[str]:
        if self.pattern:
            return re.compile(self.pattern, re.DOTALL)
        names = [re.escape(tag.strip()) for tag in self.tags.split(",")]
        other = "".join(f"(?!</?{name}>)" for name in names)
        inside = f"(?:{other}.)*"
        blocks = [f"<{name}>{inside}</{name}>" for name in names]
        return re.compile(r"\s*" + r"\s*".join(blocks) + r"\s*", re.DOTALL)

    def __call__(self, record: Record) -> float:
        """Look at every answer."""
        form = self._form()
        fitting = sum(form.fullmatch(turn.answer) is not None for turn in record.turns)
        return fitting / len(record.turns)


@dataclass(frozen=True)
class Length:
    """1 for answers of up to `target` tokens in all, and linearly less up to 0 at `most`."""

    target: int
    most: int | None = None
    """None for twice the target."""

    def __post_init__(self) -> None:
        if self.target < 1:
            raise ValueError(f"length: target: at least 1 is needed, got {self.target}")
        if self.most is not None and self.most <= self.target:
            raise ValueError(
                f"length: most: more than target={self.target} is needed, got {self.most}"
            )

    def __call__(self, record: Record) -> float:
        """Count."""
        most = 2 * self.target if self.most is None else self.most
        return min(1.0, max(0.0, (most - record.tokens) / (most - self.target)))


@dataclass(frozen=True)
class Overlong:
    """How far an answer has come into the last stretch before its longest: 0 to 1.

    Source:
        DAPO, arXiv:2503.14476, equation 13, with the sign turned: its weight is negative.
    Differs from the source:
        Of each answer of several, against the tokens that one answer may take.
    """

    limit: int | None = None
    """Tokens of the longest answer; None for the run's."""
    buffer: int | None = None
    """Tokens of the stretch; None for a fifth of the limit, as in the paper."""

    def __post_init__(self) -> None:
        for name in ("limit", "buffer"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"overlong: {name}: at least 1 is needed, got {value}")
        if self.limit is not None and self.buffer is not None and self.buffer > self.limit:
            raise ValueError(f"overlong: buffer: at most limit={self.limit}, got {self.buffer}")

    def __call__(self, record: Record) -> float:
        """Count."""
        limit = record.max_new_tokens if self.limit is None else self.limit
        buffer = max(1, limit // 5) if self.buffer is None else self.buffer
        return min(1.0, max(0.0, (record.last.tokens - (limit - buffer)) / buffer))


@dataclass(frozen=True)
class InvalidAction:
    """How many of the last turn's events say that an action was none; its weight is negative."""

    events: str = "call/*,invalid*"
    """Names of events, with commas between them; `*` is anything."""

    def __call__(self, record: Record) -> float:
        """Count."""
        names = [name.strip() for name in self.events.split(",")]
        return float(
            sum(
                any(fnmatchcase(event, name) for name in names)
                for event in record.last.observation.events
            )
        )

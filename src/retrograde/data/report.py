"""What an examination found, finding by finding."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """What a finding says of its subject."""

    PROVEN = "proven"
    FAILED = "failed"
    NOTE = "note"
    """Worth knowing, and neither."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was examined."""

    name: str
    verdict: Verdict
    text: str
    """What was seen; it may have several lines."""


@dataclass(frozen=True, slots=True)
class Report:
    """All findings about one subject."""

    subject: str
    facts: Mapping[str, str | Sequence[str]]
    """What it is like, apart from any proof."""
    findings: tuple[Finding, ...]

    @property
    def is_proven(self) -> bool:
        """Whether nothing failed."""
        return all(finding.verdict is not Verdict.FAILED for finding in self.findings)

    def to_json(self) -> dict[str, object]:
        """The report as plain JSON data."""
        return {
            "subject": self.subject,
            "proven": self.is_proven,
            "facts": {
                name: value if isinstance(value, str) else list(value)
                for name, value in self.facts.items()
            },
            "findings": [
                {"name": f.name, "verdict": str(f.verdict), "text": f.text} for f in self.findings
            ],
        }

"""What it means to assign credit."""

from collections.abc import Sequence
from typing import Protocol

from retrograde.data.evidence import NO_EVIDENCE, Evidence
from retrograde.data.rows import Judgement
from retrograde.data.tree import Group


class Credit(Protocol):
    """Judges a group; plain data, so that it can be stored with a run."""

    def __call__(
        self, group: Group, grown_in: int, evidence: Evidence = NO_EVIDENCE
    ) -> Sequence[Judgement]:
        """One judgement for each tree of the group, after round `grown_in`."""
        ...

"""The side of a rival: jobs come in by lines, and what came of them goes out by lines.

Only the standard library is imported here: it runs in the rivals' Pythons.
"""

import json
import os
import sys
from collections.abc import Iterator
from typing import Any


class Jobs:
    """Lines of JSON in and out. What libraries print goes to the error stream."""

    def __init__(self) -> None:
        """Take the standard output for the answers alone."""
        self._out = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        sys.stdout = sys.stderr

    @property
    def settings(self) -> dict[str, Any]:
        """What the rival was started with."""
        return json.loads(sys.argv[1])

    def answer(self, **found: Any) -> None:
        """Say what came of a job; once before the first, to say that everything is ready."""
        self._out.write(json.dumps(found) + "\n")
        self._out.flush()

    def next(self) -> dict[str, Any] | None:
        """The next job; None if there is none left."""
        line = sys.stdin.readline()
        return json.loads(line) if line else None

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """All that come."""
        while (job := self.next()) is not None:
            yield job

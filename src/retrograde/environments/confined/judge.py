"""Asks a confined process about puzzles and answers; it is started when it is first needed.

There is one for the whole program. It is ended, and another started, when an answer keeps it busy
for too long, and ends with the program.
"""

import atexit
import json
import sys
import threading
from typing import Any

from retrograde.environments.confined.judging import READY
from retrograde.environments.confined.worker import Worker

STARTING_SECONDS = 60.0
MAKING_SECONDS = 120.0
"""For a puzzle to be made, or a package to be imported."""


class JudgeError(ValueError):
    """The judge says that something cannot be done, and why."""


class UnansweredError(JudgeError):
    """The judge did not come to an end in time, or was ended by what it was asked about."""


class Judge:
    """The process, and whose turn it is to ask."""

    def __init__(self) -> None:
        """Nothing runs yet."""
        self._lock = threading.Lock()
        self._worker: Worker | None = None
        self._loaded: set[str] = set()
        """Packages that the process has imported, which no answer's time is spent on."""

    def ask(self, question: str, seconds: float = MAKING_SECONDS, **about: Any) -> Any:
        """Ask, and wait for the answer.

        Args:
            question: one of `judging.QUESTIONS`.
            seconds: wall clock it may take.
            about: that function's arguments.

        Raises:
            UnansweredError: it took longer, or its process died of it.
            JudgeError: it cannot be answered; the message says why.
        """
        with self._lock:
            package = "math" if question == "same" else "reasoning"
            if self._worker is None or package not in self._loaded:
                self._asked({"ask": "load", "package": package}, MAKING_SECONDS)
                self._loaded.add(package)
            return self._asked({"ask": question, **about}, seconds)

    def _asked(self, question: dict[str, Any], seconds: float) -> Any:
        worker = self._running()
        worker.tell(question)
        try:
            said = json.loads(worker.line(seconds))
        except (TimeoutError, EOFError, json.JSONDecodeError) as cause:
            self._end()
            raise UnansweredError(f"no answer within {seconds:g} seconds") from cause
        if "error" in said:
            raise JudgeError(said["error"])
        return said["told"]

    def _running(self) -> Worker:
        if self._worker is None:
            worker = Worker(
                "retrograde.environments.confined.judging", [path for path in sys.path if path]
            )
            try:
                said = worker.line(STARTING_SECONDS)
            except (TimeoutError, EOFError) as cause:
                worker.end()
                raise RuntimeError(f"the judge's process did not start: {cause}") from cause
            if said != READY:
                worker.end()
                raise RuntimeError(f"the judge's process did not start: {said.decode()}")
            self._worker = worker
            atexit.register(self.close)
        return self._worker

    def close(self) -> None:
        """End the process; the next question starts another."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._worker is not None:
            atexit.unregister(self.close)
            self._worker.end()
            self._worker = None
            self._loaded.clear()


JUDGE = Judge()
"""The one that is asked."""

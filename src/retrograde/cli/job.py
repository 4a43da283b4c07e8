"""One training run of a comparison: in this process, or in one of its own."""

import json
import os
import shutil
import subprocess
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from retrograde.cli.stopping import WITH_PARENT
from retrograde.cli.train import carried_out, prepared, settings_from
from retrograde.trainer.checkpoint import checkpoints, newest_sound
from retrograde.trainer.comparison import Kind, Outcome, outcome_of
from retrograde.trainer.run import State

Told = Callable[[str, float | None, Mapping[str, float] | None], None]
"""Told what is going on, the share of the budget that is used, and the figures of an iteration."""
SHOWN_LINES = 12
"""Of what a process said before it failed."""


@dataclass(frozen=True)
class Job:
    """A run that is to be made."""

    label: str
    """The method's."""
    seed: int
    kind: Kind
    budget: float
    folder: Path
    words: tuple[str, ...]
    """The command line of `retrograde train`, all but --resume."""
    learning_rate: float | None = None
    """Set if the run is made to choose among several."""

    @property
    def name(self) -> str:
        """What a person calls it."""
        rate = "" if self.learning_rate is None else f" at {self.learning_rate:g}"
        return f"{self.label}{rate}, seed {self.seed}"

    @property
    def said(self) -> Path:
        """Where it is kept how the run failed."""
        return self.folder.with_name(f"{self.folder.name}.error.txt")

    def arguments(self) -> list[str]:
        """The command line, that of a resumption where there is something to go on with.

        What a run left that was killed before its first checkpoint is removed.
        """
        self.said.unlink(missing_ok=True)
        whole = (self.folder / "manifest.json").exists()
        if whole and newest_sound(self.folder / "checkpoints", lambda _: None):
            return [*self.words, "--resume"]
        if self.folder.exists():
            shutil.rmtree(self.folder)
        return list(self.words)

    def share(self, line: Mapping[str, Any]) -> float | None:
        """How much of the budget was used when an iteration ended; None if it does not say."""
        names = {"tokens": "tokens/generated", "turns": "env/steps"}
        return min(1.0, line[names[self.kind]] / self.budget) if self.kind in names else None

    def outcome(self) -> Outcome:
        """What the run came to, now that it is over; of its checkpoints the last is kept."""
        for old in checkpoints(self.folder / "checkpoints")[:-1]:
            shutil.rmtree(old)
        lines = _lines(self.folder)
        if (self.share(lines[-1]) or 1.0) < 1.0:  # a signal stops a run without a fault
            raise ValueError(f"it was stopped at step {lines[-1]['step']}")
        return outcome_of(self.seed, lines, self.kind, self.budget)

    def failure(self, error: str, everything: str) -> Outcome:
        """The outcome of a run that failed."""
        self.said.parent.mkdir(parents=True, exist_ok=True)
        self.said.write_text(everything)
        return Outcome(self.seed, "failed", error=error)


class Failure:
    """Holds what a block raised.

    It is this command's business to report a run that fails, whatever the reason, and to go on
    with the others. Ctrl-C is no failure of a run and goes through.
    """

    def __init__(self) -> None:
        """Hold nothing yet."""
        self.error: str | None = None
        self.everything = ""

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        """Keep the error's words alone, not the frames, which hold a model."""
        if not isinstance(error, Exception):
            return False
        self.error = f"{type(error).__name__}: {error}"
        self.everything = "".join(traceback.format_exception(error))
        return True


def done_here(job: Job, told: Told) -> Outcome:
    """Make the run in this process, or go on with it; a failure is an outcome."""
    with Failure() as failure:
        settings = settings_from(job.arguments())

        def show(state: State, doing: str, line: Mapping[str, float] | None) -> None:
            told(doing, settings.run.share_done(state), line)

        training = prepared(settings, lambda what, share: told(what, share, None))
        carried_out(training, show)
        return job.outcome()
    return job.failure(failure.error or "", failure.everything)


class Processes:
    """Makes runs in processes of their own, each with one thread for its arithmetic."""

    def __init__(self) -> None:
        """Have none running."""
        self._running: set[subprocess.Popen[str]] = set()
        self._lock = threading.Lock()
        self._stopped = False

    def done(self, job: Job, told: Told) -> Outcome:
        """Make the run, or go on with it; a failure is an outcome."""
        command = [sys.executable, "-m", "retrograde.cli.main", "train", *job.arguments()]
        with self._lock:
            if self._stopped:
                raise KeyboardInterrupt
            process = subprocess.Popen(  # noqa: S603 - our own command
                [word for word in command if word != "--quiet"],
                stdin=subprocess.PIPE,  # its end is ours: see `end_with_parent`
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                env=os.environ | {"OMP_NUM_THREADS": "1", WITH_PARENT: "1"},
            )
            self._running.add(process)
        said: deque[str] = deque(maxlen=SHOWN_LINES)
        with process:
            for line in process.stderr or ():
                said.append(line)
                if line.startswith("step "):
                    (last,) = _lines(job.folder, last=1)
                    told("running", job.share(last), last)
        with self._lock:
            self._running.discard(process)
            if self._stopped:
                raise KeyboardInterrupt
        if process.returncode:
            reason = said[-1].strip() if said else f"exit code {process.returncode}"
            return job.failure(reason, "".join(said))
        with Failure() as failure:
            return job.outcome()
        return job.failure(failure.error or "", failure.everything)

    def stop(self) -> None:
        """End what is running, and begin no more."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                process.terminate()


def _lines(folder: Path, last: int = 0) -> Sequence[dict[str, Any]]:
    """The metrics of a run, all or the last ones."""
    text = (folder / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in text[-last:]]

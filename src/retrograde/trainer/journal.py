"""What is kept of a run: `metrics.jsonl`, one object an iteration, and an archive of rollouts."""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from retrograde.data.rows import Row
from retrograde.data.stored import Scribe
from retrograde.data.tree import Group, Tree
from retrograde.trainer.archive import Archive
from retrograde.trainer.failure import Writing
from retrograde.trainer.figures import figures_of
from retrograde.trainer.lines import add_line, forget_later_than
from retrograde.trainer.run import State
from retrograde.trainer.scores import Scores

Show = Callable[[State, str, Mapping[str, float] | None], None]
"""Told what is going on, and the figures of an iteration once it is over."""
EVALUATING, SAVING = "evaluating", "saving"
"""What the loop calls playing held-out tasks, and writing a checkpoint."""
PEAKS = (
    "ratio/error_max",
    "logp_difference/max",
    "first_minibatch/ratio/error_max",
    "first_minibatch/logp_difference/max",
    "sampling/logp_difference/max",
)
"""Figures of which an iteration keeps the largest, not the mean."""


class DiskJournal:
    """Writes as it goes; a line is there once its iteration is over."""

    def __init__(
        self,
        folder: Path,
        state: State,
        show: Show,
        scribe: Scribe,
        succeeded: Callable[[Tree, int], bool],
        *,
        keep_rollouts: int,
    ) -> None:
        """Open a run's records; lines past the state, of a run that was killed, are dropped."""
        # A run resumed at step 0 evaluates again before its first iteration.
        last = state.step or -1
        self.metrics = folder / "metrics.jsonl"
        self.archive = Archive(folder, last, scribe, succeeded, keep=keep_rollouts)
        self.show = show
        self._state = state
        self._figures: defaultdict[str, list[float]] = defaultdict(list)
        self._counts: defaultdict[str, float] = defaultdict(float)
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._task, self._since = "starting", time.monotonic()
        self._pending = 0.0
        forget_later_than(self.metrics, last)

    def doing(self, what: str) -> None:
        """Start the clock of another activity."""
        self._lap()
        if what != SAVING:  # which comes after the last count of an iteration
            self._advance()
        self._task = what
        self.show(self._state, what, None)

    def _lap(self) -> None:
        now = time.monotonic()
        spent, self._since = now - self._since, now
        self._seconds[self._task.split()[0]] += spent
        self._state.seconds += spent
        self._pending += spent if self._task not in (EVALUATING, SAVING) else 0.0

    def _advance(self) -> None:
        """Move the clock that a budget of seconds is held against.

        It stands still from the last count of an iteration until the next one begins. If it did
        not, a run could be found to be over only after it was asked whether to evaluate.
        """
        self._state.training_seconds += self._pending
        self._pending = 0.0

    def add(self, metrics: Mapping[str, float]) -> None:
        """Figures of one update."""
        for name, value in metrics.items():
            self._figures[name].append(float(value))

    def count(self, name: str, number: float = 1) -> None:
        """Add to a count of the iteration."""
        self._lap()
        self._advance()
        self._counts[name] += number

    def wanted(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Rows whose scores after an update are to be kept."""
        return self.archive.wanted(rows)

    def judged(self, rows: Sequence[Row], after: Scores | None) -> None:
        """What an update trained on, and the scores that were wanted; none if it was skipped."""
        self.archive.judged(rows, after, self._state.version + 1)

    def close_step(
        self, state: State, groups: Sequence[Group], evaluation: Mapping[str, float] | None
    ) -> None:
        """Write the line of an iteration, and what the archive keeps of it."""
        self._lap()
        line: dict[str, float] = {
            "step": state.step,
            "policy_version": state.version,
            "tokens/generated": state.tokens,
            "env/steps": state.env_steps,
            "wall_seconds": round(state.seconds, 3),
            "training_seconds": round(state.training_seconds, 3),
        }
        line |= evaluation or {}
        if evaluation and state.best is not None and state.best_step is not None:
            line |= {"eval/best": state.best, "eval/best_step": state.best_step}
        line |= figures_of(groups)
        for name, values in self._figures.items():
            line[name] = max(values) if name in PEAKS else fmean(values)
        line |= _of_counts(self._counts)
        line |= {f"seconds/{name}": round(spent, 3) for name, spent in self._seconds.items()}
        with Writing(self.archive.run):
            self.archive.close_step(state.step, groups)
        add_line(self.metrics, line)  # last: what a line is there for is there
        for kept in (self._figures, self._counts, self._seconds):
            kept.clear()
        self.show(state, "done", line)


def _of_counts(counts: Mapping[str, float]) -> dict[str, float]:
    line = dict(counts)
    turns = line.pop("rollouts/turns", 0)
    if turns:
        tokens, contexts = line.pop("rollouts/tokens"), line.pop("rollouts/context_tokens")
        line["rollouts/turns"] = turns
        line["completions/mean_length"] = tokens / turns
        line["prompts/mean_length"] = contexts / turns
        line["completions/clipped_ratio"] = line.pop("rollouts/unstopped", 0) / turns
    return line

"""What a person sees while a run goes on: one live panel, or plain lines without a terminal."""

import sys
import time
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.panel import Panel as Box
from rich.progress_bar import ProgressBar
from rich.table import Table

from retrograde.trainer.run import Run, State
from retrograde.trainer.symptoms import Watch


class Panel:
    """Shows where a run stands."""

    def __init__(self, title: str, run: Run, *, quiet: bool) -> None:
        """Show nothing yet; used as a context manager."""
        self.console = Console(stderr=True)
        self.title = title
        self.run = run
        self.quiet = quiet
        self.last: dict[str, float] = {}
        self.first: dict[str, float] = {}
        self._live: Live | None = None
        self._started = time.monotonic()
        self._begun_at = 0.0
        self._told = ""
        self._watch = Watch()

    def __enter__(self) -> Self:
        """Start the panel."""
        if not self.quiet and self.console.is_terminal:
            self._live = Live(console=self.console, refresh_per_second=4, transient=False)
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the panel's last state on the screen."""
        if self._live is not None:
            self._live.stop()

    def progress(self, what: str, share: float) -> None:
        """Long work before the run itself."""
        if self._live is not None:
            self._live.update(Box(_bar(what, share), title=self.title))
        elif not self.quiet and (what != self._told or share >= 1.0):
            self._told = what
            print(f"{what}: {share:.0%}", file=sys.stderr, flush=True)

    def show(self, state: State, doing: str, line: Mapping[str, float] | None) -> None:
        """Where the run stands; `line` is the iteration that just ended."""
        if line is not None:
            self.last |= line
            if "eval/success" in line and not self.first:
                self.first = dict(line)
            if self._live is None and not self.quiet:
                print(self._plain(state, line), file=sys.stderr, flush=True)
            for warning in self._watch.warnings(line):
                self.warn(warning)
        if self._live is not None:
            self._live.update(Box(self._table(state, doing), title=self.title))

    def go_on(self, lines: Iterable[Mapping[str, float]]) -> None:
        """Take the lines of a run that is resumed as seen and said."""
        for line in lines:
            self._watch.warnings(line)
            if "eval/success" in line and not self.first:
                self.first = dict(line)

    def warn(self, warning: str) -> None:
        """Say it above the panel, or among the lines, also where little is to be said."""
        self.console.print(f"warning: {warning}", style="bold red", soft_wrap=True, markup=False)

    def _plain(self, state: State, line: Mapping[str, float]) -> str:
        shown = [f"step {state.step:3d}", f"{state.env_steps:6d} turns", f"{state.seconds:6.1f} s"]
        if "reward/mean" in line:
            shown.append(f"reward {line['reward/mean']:.3f}")
        if "eval/success" in line:
            shown.append(
                f"held-out success {line['eval/success']:.3f} "
                f"(greedy {line['eval/success_greedy']:.3f})"
            )
        if line.get("update/skipped"):
            shown.append(f"{line['update/skipped']:.0f} updates skipped")
        return "  ".join(shown)

    def _table(self, state: State, doing: str) -> Table:
        share = self.run.share_done(state)
        table = _bar(doing, share)
        spent = time.monotonic() - self._started
        if share > 0.02:  # noqa: PLR2004 - sooner, it would be a guess
            table.add_row("time left", f"about {spent * (1 - share) / share:.0f} s")
        table.add_row("step", f"{state.step}, {state.env_steps} turns, {state.tokens} tokens")
        if "eval/success" in self.last:
            table.add_row(
                "held-out success",
                f"{self.first['eval/success']:.3f} at the start, "
                f"[bold]{self.last['eval/success']:.3f}[/] now "
                f"(greedy {self.last['eval/success_greedy']:.3f})",
            )
        for name in ("reward/mean", "completions/clipped_ratio", "clip_ratio", "update/skipped"):
            if name in self.last:
                table.add_row(name, f"{self.last[name]:.3f}")
        return table


def _bar(doing: str, share: float) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column()
    table.add_row("now", doing)
    table.add_row("done", ProgressBar(total=1.0, completed=share, width=40))
    return table

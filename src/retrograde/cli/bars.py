"""What a person sees while several runs go on: a bar for each, or plain lines."""

import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from retrograde.cli.job import Told


class Bars:
    """Shows where each run stands."""

    def __init__(self, total: int, *, quiet: bool) -> None:
        """Show nothing yet; used as a context manager.

        Args:
            total: runs, finished ones included.
            quiet: show nothing at all.
        """
        self.console = Console(stderr=True)
        self.quiet = quiet
        self.total = total
        self.done = 0
        self._all: TaskID | None = None
        self._bars: dict[str, TaskID] = {}
        self._live: Progress | None = None

    def __enter__(self) -> Self:
        """Start the bars."""
        if not self.quiet and self.console.is_terminal:
            self._live = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=24),
                TextColumn("{task.percentage:>3.0f} %"),
                TimeElapsedColumn(),
                TextColumn("{task.fields[success]}"),
                TextColumn("[dim]{task.fields[doing]}"),
                console=self.console,
                refresh_per_second=4,
            )
            self._live.start()
            self._all = self._live.add_task("[bold]all", total=self.total, success="", doing="")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the lines of finished runs on the screen."""
        if self._live is not None:
            self._live.stop()

    def begin(self, name: str) -> Told:
        """Show a run, and return what is to be told about it."""
        if self._live is not None:
            self._bars[name] = self._live.add_task(
                escape(name), total=1.0, success="", doing="starting"
            )

        def told(doing: str, share: float | None, line: Mapping[str, float] | None) -> None:
            success = ""
            if line is not None and "eval/success" in line:
                success = f"held-out success {line['eval/success']:.3f}"
            if self._live is not None:
                self._live.update(self._bars[name], completed=share, doing=doing)
                if success:
                    self._live.update(self._bars[name], success=success)
            elif success:
                percent = "" if share is None else f"{share:4.0%}  "
                self._print(f"{name}: {percent}{success}")

        return told

    def end(self, name: str, what: str) -> None:
        """A run is over; what it came to stays on the screen."""
        self.done += 1
        if self._live is not None:
            if name in self._bars:
                self._live.remove_task(self._bars.pop(name))
            if self._all is not None:
                self._live.update(self._all, completed=self.done)
        self._print(f"[{self.done}/{self.total}] {name}: {what}")

    def _print(self, line: str) -> None:
        if self._live is not None:
            self._live.console.print(escape(line), highlight=False)
        elif not self.quiet:
            print(line, file=sys.stderr, flush=True)

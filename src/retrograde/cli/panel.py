"""What a person sees while a run goes on: one live panel, or plain lines without a terminal."""

import json
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel as Box
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from retrograde.cli.stopping import leave_unheard
from retrograde.data.tree import End
from retrograde.rollouts.progress import Ended, Progress
from retrograde.trainer.journal import EVALUATING
from retrograde.trainer.run import Run, State
from retrograde.trainer.symptoms import Watch

BAR_WIDTH = 40
SHOWN_WARNINGS = 3
"""The panel shows the last ones; all of them are printed above it once."""
SOON = 0.02
"""Less of a run says nothing about how long the rest takes."""
CAREFUL = {
    "completions/clipped_ratio": "answers cut off",
    "clip_ratio": "tokens clipped",
    "frac_reward_zero_std": "groups without signal",
    "rollouts/ended/failed": "rollouts failed",
    "update/skipped": "updates skipped",
}
"""Figures that should be small, and what they are called here."""
SMALL = 0.005
"""A share below this is not shown."""
COUNTS = ("rollouts/ended/failed", "update/skipped")


class Panel:
    """Shows where a run stands."""

    def __init__(
        self,
        title: str,
        run: Run,
        *,
        quiet: bool,
        turn_limit: int | None = None,
        as_json: bool = False,
        console: Console | None = None,
    ) -> None:
        """Show nothing yet; used as a context manager.

        Args:
            title: what runs.
            run: its settings.
            quiet: show nothing but warnings.
            turn_limit: turns an episode may take; None if that is not known.
            as_json: print one JSON object a line on stdout, in place of everything else.
            console: where to; None for stderr.
        """
        self.console = console or Console(stderr=True)
        self.title = title
        self.run = run
        self.quiet = quiet or as_json
        self.turn_limit = turn_limit
        self.as_json = as_json
        self.last: dict[str, float] = {}
        self.first: dict[str, float] = {}
        self.warnings: list[str] = []
        self._live: Live | None = None
        self._pace = Pace()
        self._state = State()
        self._doing = ""
        self._ended: Ended | None = None
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
            rows = _grid()
            rows.add_row("now", what)
            rows.add_row("done", _bar(share, f"{share:.0%}"))
            self._live.update(Box(rows, title=self.title, title_align="left"))
        elif not self.quiet and (what != self._told or share >= 1.0):
            self._told = what
            print(f"{what}: {share:.0%}", file=sys.stderr, flush=True)

    def show(self, state: State, doing: str, line: Mapping[str, float] | None) -> None:
        """Where the run stands; `line` is the iteration that just ended."""
        self._state, self._doing = state, doing
        self._pace.see(self.run.share_done(state), doing)
        if line is not None:
            self.last |= line
            self._pace.count(line)
            if "eval/success" in line and not self.first:
                self.first = dict(line)
            if self.as_json:
                self.tell("step", line)
            elif self._live is None and not self.quiet:
                print(self._plain(state, line), file=sys.stderr, flush=True)
            for warning in self._watch.warnings(line):
                self.warn(warning)
        self._draw()

    def grown(self, progress: Progress) -> None:
        """How far the growing of rollouts is."""
        of = "" if self.turn_limit is None else f" of {self.turn_limit}"
        again = "" if progress.number == 0 else f"round {progress.number}, "
        many = "rollout" if progress.live == 1 else "rollouts"
        self._doing = f"sampling: {again}turn {progress.turn}{of}, {progress.live} {many} under way"
        self._ended = progress.last or self._ended
        self._draw()

    def tell(self, event: str, what: Mapping[str, object]) -> None:
        """One JSON object on a line of its own; once nobody reads them, the run is stopped."""
        try:
            print(json.dumps({"event": event, **what}), flush=True)
        except BrokenPipeError:
            leave_unheard()
            if event != "end":
                signal.raise_signal(signal.SIGTERM)

    def go_on(self, lines: Iterable[Mapping[str, float]]) -> None:
        """Take the lines of a run that is resumed as seen and said."""
        for line in lines:
            self._watch.warnings(line)
            self.last |= line
            if "eval/success" in line and not self.first:
                self.first = dict(line)

    def warn(self, warning: str) -> None:
        """Say it above the panel, or among the lines, also where little is to be said."""
        self.warnings.append(warning)
        if self.as_json:
            self.tell("warning", {"text": warning})
        else:
            self.console.print(
                Text(f"warning: {warning}", style="bold red"), soft_wrap=True, highlight=False
            )

    def _draw(self) -> None:
        if self._live is not None:
            self._live.update(self.drawn())

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
        left = self._pace.left(self.run.share_done(state))
        if left is not None:
            shown.append(f"{clock(left)} left")
        return "  ".join(shown)

    def drawn(self) -> RenderableType:
        """The panel as it stands now."""
        state, share = self._state, self.run.share_done(self._state)
        left = self._pace.left(share)
        rows = _grid()
        rows.add_row("now", self._doing)
        to_go = "" if left is None else f"   {clock(left)} left"
        rows.add_row("done", _bar(share, f"{share:.0%}{to_go}"))
        speed = self._pace.tokens_per_second
        rows.add_row(
            "step",
            f"{state.step}   {state.env_steps:,} turns   {state.tokens:,} tokens"
            + ("" if speed is None else f"   {speed:,.0f} tokens/s"),
        )
        if "eval/success" in self.last:
            rows.add_row(
                "success",
                Text.assemble(
                    (f"{self.last['eval/success']:.3f}", "bold"),
                    f" now, {self.first['eval/success']:.3f} at first",
                    (f"   greedy {self.last['eval/success_greedy']:.3f}", "dim"),
                ),
            )
        if "reward/mean" in self.last:
            rows.add_row("reward", f"{self.last['reward/mean']:.3f}")
        if self._ended is not None:
            rows.add_row("last", _told(self._ended))
        worth = self._worth_a_look()
        if worth:
            rows.add_row("", Text(worth, style="dim"))
        parts: list[RenderableType] = [rows]
        parts += [Text(f"! {text}", style="red") for text in self.warnings[-SHOWN_WARNINGS:]]
        return Box(Group(*parts), title=self.title, title_align="left", padding=(0, 1))

    def _worth_a_look(self) -> str:
        """Figures that should be small and are not quite 0."""
        return ", ".join(
            f"{said} {self.last[name]:.0f}" if name in COUNTS else f"{said} {self.last[name]:.0%}"
            for name, said in CAREFUL.items()
            if self.last.get(name, 0.0) >= (1.0 if name in COUNTS else SMALL)
        )


class Pace:
    """How fast a run goes, from when it was begun or resumed."""

    def __init__(self) -> None:
        """Have seen nothing."""
        self.tokens_per_second: float | None = None
        """Generated in the last iteration, over its seconds without evaluation."""
        self._begun_at: float | None = None
        self._since = self._at = 0.0
        self._tokens: float | None = None

    def see(self, share: float, doing: str) -> None:
        """Where the run stands now; the first evaluation is no part of the pace."""
        self._at = time.monotonic()
        if self._begun_at is None and doing != EVALUATING:
            self._begun_at, self._since = share, self._at

    def count(self, line: Mapping[str, float]) -> None:
        """Take in the figures of an iteration."""
        if "tokens/generated" not in line:
            return
        evaluating = f"seconds/{EVALUATING}"
        seconds = sum(v for k, v in line.items() if k.startswith("seconds/") and k != evaluating)
        tokens, before = line["tokens/generated"], self._tokens
        self._tokens = tokens
        if before is not None and tokens > before and seconds > 0:
            self.tokens_per_second = (tokens - before) / seconds

    def left(self, share: float) -> float | None:
        """Seconds to go at the pace so far; None while that would be a guess."""
        if self._begun_at is None or share >= 1.0 or share - self._begun_at < SOON:
            return None
        return (self._at - self._since) * (1 - share) / (share - self._begun_at)


def clock(seconds: float) -> str:
    """A duration as people say it."""
    whole = round(seconds)
    if whole < 60:  # noqa: PLR2004 - seconds in a minute
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:  # noqa: PLR2004 - minutes in an hour
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


def _told(ended: Ended) -> Text:
    turns = "turn" if ended.turns == 1 else "turns"
    style = "red" if ended.end is End.FAILED else ""
    return Text(f"{ended.end}, earned {ended.earned:g} in {ended.turns} {turns}", style=style)


def _grid() -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    return table


def _bar(share: float, said: str) -> Table:
    row = Table.grid(padding=(0, 2))
    row.add_row(ProgressBar(total=1.0, completed=share, width=BAR_WIDTH), said)
    return row

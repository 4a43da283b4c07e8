"""SIGTERM and Ctrl-C: a run ends between iterations, or drops the one under way in time."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Self

GRACE_SECONDS = 4.0
"""An iteration that is not over by then is dropped. What is left of ten seconds is for closing
episodes and writing a checkpoint."""
AGAIN_SECONDS = 3.0
"""What holds out, or swallows the interruption, is interrupted again after so long."""
HEEDED = (signal.SIGTERM, signal.SIGINT)


WITH_PARENT = "RETROGRADE_WITH_PARENT"
"""Set in the environment of a process that ends with the one that started it."""


class Stopped(KeyboardInterrupt):
    """Whatever was going on was stopped by a signal, and what could be kept has been kept.

    It is a KeyboardInterrupt because that is what libraries, asyncio among them, let through.
    """

    def __init__(self, number: int, said: str = "", *, at_once: bool = False) -> None:
        """Say which signal, and what was kept; or that there is to be no time for that."""
        super().__init__(said)
        self.number = number
        self.said = said
        self.at_once = at_once

    @property
    def code(self) -> int:
        """The exit code: who sends SIGTERM expects 0, who presses Ctrl-C 130."""
        return 0 if self.number == signal.SIGTERM else 128 + self.number


class Stopping:
    """Listens for signals while a block runs; only in the main thread, where Python has them."""

    def __init__(self, warned: str | None = None) -> None:
        """Nobody has asked yet.

        Args:
            warned: what is said on stderr when somebody asks; None for nothing.
        """
        self.warned = warned
        self.number: int | None = None
        """The signal that asked."""
        self._is_late = False
        self._over = threading.Event()
        self._before: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}

    def is_asked(self) -> bool:
        """Whether the block is to end when it can."""
        return self.number is not None

    def heeded(self) -> None:
        """The block gave in: what is written now is not broken into, but by a second Ctrl-C."""
        self._over.set()

    def __enter__(self) -> Self:
        """Listen."""
        if threading.current_thread() is threading.main_thread():
            heeded = [n for n in HEEDED if signal.getsignal(n) is not signal.SIG_IGN]
            self._before = {number: signal.signal(number, self._heard) for number in heeded}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Listen no more."""
        self._over.set()
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _heard(self, number: int, _frame: FrameType | None) -> None:
        if self._is_late and not self._over.is_set():
            self._is_late = False
            raise Stopped(self.number or number)
        if number == signal.SIGINT and self.number == signal.SIGINT:
            raise Stopped(number, at_once=True)  # the second Ctrl-C waits for nothing
        if self.number is None:
            self.number = number
            if self.warned is not None:
                os.write(2, f"\n{self.warned}\n".encode())  # print may be what was interrupted
            threading.Thread(target=self._interrupt, daemon=True).start()

    def _interrupt(self) -> None:
        """From a thread beside, break into whatever the main thread is at, until it gives in."""
        seconds, main = GRACE_SECONDS, threading.main_thread().ident
        while not self._over.wait(seconds) and main is not None:
            self._is_late, seconds = True, AGAIN_SECONDS
            signal.pthread_kill(main, signal.SIGTERM)


class Terminable:
    """A block that SIGTERM ends as Ctrl-C does, at once."""

    def __enter__(self) -> Self:
        """Listen."""
        self._is_main = threading.current_thread() is threading.main_thread()
        if self._is_main:
            self._before = signal.signal(signal.SIGTERM, self._heard)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Listen no more."""
        if self._is_main:
            signal.signal(signal.SIGTERM, self._before)

    def _heard(self, number: int, _frame: FrameType | None) -> None:
        raise Stopped(number)


def leave_unheard() -> None:
    """Write what is still to come on stdout to nobody: who read it is gone, as `head` is."""
    nobody = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nobody, sys.stdout.fileno())
    os.close(nobody)


def end_with_parent() -> None:
    """Stop, as after SIGTERM, once the process that holds the other end of stdin is gone.

    A process that is killed outright cannot tell its children; the pipe between them can.
    """
    if os.environ.pop(WITH_PARENT, None) is None:
        return

    def wait() -> None:
        while os.read(0, 1):
            continue
        main = threading.main_thread().ident
        if main is not None:
            signal.pthread_kill(main, signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()

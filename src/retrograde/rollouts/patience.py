"""Waiting for code that is not ours: for so long and no longer.

A call that waits is cancelled when its time is up, and given up if it will not be cancelled. A
call that blocks, and with it everything else in this thread, is broken into by an alarm. That
works in the main thread, wherever there are alarms, and on whatever Python itself is in: a sleep,
a socket, a loop. Blocking code that never comes back to Python belongs into a thread of its own
(`retrograde.environments.threaded`).
"""

import asyncio
import dis
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from contextlib import contextmanager
from functools import cache
from types import CodeType, CoroutineType, FrameType, TracebackType, coroutine
from typing import Any, ClassVar, Self, TypeVar, TypeVarTuple, cast

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

GRACE_SECONDS = 1.0
"""What a cancelled call gets to tidy up."""
AGAIN_SECONDS = 1.0
"""An alarm that was not heeded rings again."""


PAUSES = {"GET_AWAITABLE", "GET_AITER", "GET_ANEXT", "BEFORE_ASYNC_WITH", "YIELD_VALUE", "SEND"}
"""Operations that a coroutine can pause in."""


class StalledError(BaseException):
    """Raised inside code that blocks; not an Exception, so that no handler there takes it."""


class ExitedError(RuntimeError):
    """Code that is not ours asked for the whole program to end."""


class StrayCancellationError(RuntimeError):
    """A call was cancelled, and not by us."""


async def within(
    seconds: float,
    call: Callable[[], Awaitable[T]],
    what: str,
    took: Callable[[float], None] | None = None,
) -> T:
    """What the call comes to.

    A coroutine without an `await` in it is run right here. All others get a task of their own,
    which takes a tenth of a millisecond: more than a turn in many a small world.

    Args:
        seconds: how long it may take.
        call: made here, and awaited.
        what: what it does, for the message.
        took: told the seconds from its beginning to its end, if it comes to something.

    Raises:
        TimeoutError: it took longer.
        ExitedError: it asked for the program to end.
        StrayCancellationError: it was cancelled, and this was not.
    """
    begun = time.monotonic()
    try:
        made = at_once(seconds, _started, call)
    except StopIteration as stop:
        if took is not None:
            took(time.monotonic() - begun)
        return stop.value
    except asyncio.CancelledError:
        raise StrayCancellationError(f"{what} was cancelled by something in it") from None
    task = asyncio.ensure_future(_stepped(made, seconds, took))
    task.add_done_callback(lambda _: _closed(made))
    try:
        await asyncio.wait({task}, timeout=seconds)
        is_late = not task.done()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=GRACE_SECONDS)
            task.add_done_callback(_forgotten)
    if is_late:
        raise TimeoutError(f"{what} took longer than {seconds:g} s")
    if task.cancelled():
        raise StrayCancellationError(f"{what} was cancelled by something in it")
    return task.result()


def _closed(made: Awaitable[Any]) -> None:
    """A coroutine whose task ended before it began is not to be missed by anybody."""
    if isinstance(made, CoroutineType):
        cast("Coroutine[Any, Any, Any]", made).close()


@cache
def never_waits(code: CodeType) -> bool:
    """Whether a coroutine's code holds nothing that could pause it."""
    return not any(each.opname in PAUSES for each in dis.get_instructions(code))


def _started(call: Callable[[], Awaitable[T]]) -> Awaitable[T]:
    """Make a call; if it is one that never waits, run it to its StopIteration."""
    made = call()
    code = _code_of(made)
    if code is not None and never_waits(code):
        cast("Coroutine[Any, Any, T]", made).send(None)
    return made


def _code_of(made: object) -> CodeType | None:
    return made.cr_code if isinstance(made, CoroutineType) else None


async def outcomes(calls: Iterable[Coroutine[Any, Any, T]]) -> list[T | BaseException]:
    """What calls come to, in their order; what they raise is among it.

    Each is begun in turn, and only one that has to wait gets a task of its own.

    Raises:
        KeyboardInterrupt, SystemExit: as soon as a call does.
    """
    found: dict[int, T | BaseException] = {}
    waiting: dict[int, asyncio.Future[T]] = {}
    caught = _Caught()
    with Vigil():
        for i, call in enumerate(calls):
            with caught:
                waited = call.send(None)
                waiting[i] = asyncio.ensure_future(_resumed(call, waited))
            if isinstance(caught.error, StopIteration):
                found[i] = caught.error.value
            elif isinstance(caught.error, (KeyboardInterrupt, SystemExit)):
                raise caught.error
            elif caught.error is not None:
                found[i] = caught.error
    caught.error = None  # it leads here, and so to itself: all of this would wait for the collector
    if waiting:
        rest = await asyncio.gather(*waiting.values(), return_exceptions=True)
        found |= zip(waiting, rest, strict=True)
    return [found[i] for i in range(len(found))]


@coroutine
def _resumed(inner: Coroutine[Any, Any, T], waited: Any) -> Generator[Any, Any, T]:
    """The rest of a coroutine that waits for something."""
    while True:
        passed: Any = None
        with _Caught() as caught:
            passed = yield waited
        try:
            waited = inner.send(passed) if caught.error is None else inner.throw(caught.error)
        except StopIteration as stop:
            return stop.value


def at_once(seconds: float, call: Callable[[*Ts], T], *given: *Ts) -> T:
    """What a call comes to that is no coroutine.

    Raises:
        TimeoutError: it took longer, where an alarm can be set.
        ExitedError: it asked for the program to end.
    """
    vigil = Vigil.kept
    try:
        if vigil is None or vigil.seconds is not None or Alarm.heeded_in != threading.get_ident():
            with Alarm(seconds):
                return call(*given)
        return vigil.over(seconds, call, *given)
    except StalledError as stalled:
        raise TimeoutError(str(stalled)) from None
    except SystemExit as cause:
        raise ExitedError(f"SystemExit({cause.code!r})") from cause


class Alarm:
    """Breaks into a block that takes too long.

    It does nothing outside the main thread, where there are no alarms, and where somebody else
    has set one.
    """

    heeded_in: ClassVar[int | None] = None
    """The thread in which a handler waits for any alarm: inside `heeding_alarms`."""
    ticking: ClassVar["Alarm | None"] = None
    """The one that handler is for."""

    def __init__(self, seconds: float) -> None:
        """For how long the block may run."""
        self.seconds = seconds
        self._is_set = False
        self._before: Any = None

    def __enter__(self) -> Self:
        """Set it."""
        if Alarm.heeded_in == threading.get_ident():
            if not signal.getitimer(signal.ITIMER_REAL)[0]:
                self._is_set, Alarm.ticking = True, self
                signal.setitimer(signal.ITIMER_REAL, self.seconds, AGAIN_SECONDS)
        elif _is_alarming() and not signal.getitimer(signal.ITIMER_REAL)[0]:
            self._is_set = True
            self._before = signal.signal(signal.SIGALRM, self.ring)
            signal.setitimer(signal.ITIMER_REAL, self.seconds, AGAIN_SECONDS)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Take it back."""
        if self._is_set:
            signal.setitimer(signal.ITIMER_REAL, 0)
            if Alarm.ticking is self:
                Alarm.ticking = None
            else:
                signal.signal(signal.SIGALRM, self._before)

    def ring(self, number: int, frame: FrameType | None) -> None:
        """Break into the block."""
        del number, frame
        raise StalledError(f"it blocked for {self.seconds:g} s without a pause")


def _is_alarming() -> bool:
    """Whether alarms can be set in this thread."""
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and hasattr(signal, "setitimer")


@contextmanager
def heeding_alarms() -> Generator[None]:
    """A block with many alarms: their handler is set once, which is most of what one costs."""
    if not _is_alarming() or Alarm.heeded_in is not None:
        yield
        return
    before = signal.signal(signal.SIGALRM, _rung)
    Alarm.heeded_in = threading.get_ident()
    try:
        yield
    finally:
        Alarm.heeded_in = None
        signal.signal(signal.SIGALRM, before)


def _rung(number: int, frame: FrameType | None) -> None:
    if Alarm.ticking is not None:
        Alarm.ticking.ring(number, frame)
    elif Vigil.kept is not None:
        Vigil.kept.ring()


class Vigil:
    """A block without a pause, in which many calls share a timer that is set once.

    That is most of what an alarm costs once it has a handler. The timer rings too early for all
    calls but the first, and is then set anew for the one under way; so it is for a call that has
    less time than is left, and wherever somebody stopped it. Outside `heeding_alarms`, and where
    a timer is set already, each call has an alarm of its own.
    """

    kept: ClassVar["Vigil | None"] = None
    """The one there is."""

    def __init__(self) -> None:
        """Nothing is under way yet."""
        self.seconds: float | None = None
        """For how long the call that is under way may block."""
        self._until = 0.0

    def __enter__(self) -> Self:
        """Begin."""
        is_heeded = Alarm.heeded_in == threading.get_ident()
        if is_heeded and Vigil.kept is None and not signal.getitimer(signal.ITIMER_REAL)[0]:
            Vigil.kept = self
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the timer."""
        if Vigil.kept is self:
            Vigil.kept = None
            signal.setitimer(signal.ITIMER_REAL, 0)

    def over(self, seconds: float, call: Callable[[*Ts], T], *given: *Ts) -> T:
        """What a call comes to.

        Raises:
            StalledError: it blocked for longer.
        """
        self.seconds, self._until = seconds, time.monotonic() + seconds
        if not 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= seconds:
            signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN_SECONDS)
        try:
            return call(*given)
        finally:
            self.seconds = None

    def ring(self) -> None:
        """Break into the call that is under way, if its time is up."""
        if self.seconds is None:
            return
        if (left := self._until - time.monotonic()) > 0:
            signal.setitimer(signal.ITIMER_REAL, left, AGAIN_SECONDS)
        else:
            raise StalledError(f"it blocked for {self.seconds:g} s without a pause")


async def _awaited(made: Awaitable[T]) -> T:
    return await made


async def _stepped(made: Awaitable[T], seconds: float, took: Callable[[float], None] | None) -> T:
    begun = time.monotonic()
    try:
        outcome = await _steps(_awaited(made), seconds)
    except StalledError as stalled:
        raise TimeoutError(str(stalled)) from None
    except SystemExit as cause:
        raise ExitedError(f"SystemExit({cause.code!r})") from cause
    if took is not None:
        took(time.monotonic() - begun)
    return outcome


@coroutine
def _steps(inner: Coroutine[Any, Any, T], seconds: float) -> Generator[Any, Any, T]:
    """Drive a coroutine, each stretch from one pause to the next under an alarm."""
    go: Callable[[Any], Any] = inner.send
    passed: Any = None
    while True:
        try:
            with Alarm(seconds):
                waited = go(passed)
        except StopIteration as stop:
            return stop.value
        passed, go = None, inner.send
        with _Caught() as caught:
            passed = yield waited
        if caught.error is not None:  # it is for whoever waits
            passed, go = caught.error, inner.throw


class _Caught:
    """Holds whatever a block raises."""

    def __init__(self) -> None:
        self.error: BaseException | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self.error = error
        return True


def _forgotten(task: asyncio.Task[Any]) -> None:
    """Look at what a call that was given up came to, so that nobody complains it was not."""
    if not task.cancelled():
        task.exception()

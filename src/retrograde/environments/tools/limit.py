"""Other people's code under a time limit, whatever it does and raises."""

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

T = TypeVar("T")


class ToolTimeoutError(TimeoutError):
    """Other people's code took longer than it may."""


@dataclass
class Caught:
    """Holds what a block raised: what a tool raises is its caller's to hear, whatever it is."""

    lets_through: tuple[type[BaseException], ...] = (asyncio.CancelledError, KeyboardInterrupt)
    """What is meant to stop a task or the program."""
    error: BaseException | None = None

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        """Keep the error."""
        if isinstance(error, self.lets_through):
            return False
        self.error = error
        return error is not None


async def within(
    seconds: float, function: Callable[..., Any], arguments: Mapping[str, Any] | None = None
) -> Any:
    """What a function returns, if it returns in time.

    An asynchronous function runs here; any other in a thread of its own, which nobody waits for
    once it is late: it goes on in the background, and ends with the program at the latest.

    Raises:
        ToolTimeoutError: it took longer.
        BaseException: whatever it raised.
    """
    called = dict(arguments or {})
    try:
        async with asyncio.timeout(seconds):
            if inspect.iscoroutinefunction(function):
                return await function(**called)
            returned = await _in_a_thread(function, called)
            return await returned if inspect.isawaitable(returned) else returned
    except TimeoutError as cause:
        if isinstance(cause.__cause__, asyncio.CancelledError):  # ours, not one it raised itself
            raise ToolTimeoutError(f"no result within {seconds:g} seconds") from cause
        raise


async def _in_a_thread(function: Callable[..., T], arguments: Mapping[str, Any]) -> T:
    # Not `asyncio.to_thread`: its few threads are shared, and one that is stuck keeps the
    # program from ending.
    done: Future[T] = Future()
    context = contextvars.copy_context()

    def run() -> None:
        with Caught(lets_through=()) as caught:  # in a thread there is nobody to let it through to
            result = context.run(function, **arguments)
            if not done.cancelled():
                done.set_result(result)
        error = caught.error
        if error is not None and not done.cancelled():
            stops = isinstance(error, asyncio.CancelledError | KeyboardInterrupt)
            done.set_exception(RuntimeError(repr(error)) if stops else error)

    threading.Thread(target=run, name=f"tool {function!r:.40}", daemon=True).start()
    return await asyncio.wrap_future(done)


def aside(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine, whether or not an event loop is running here.

    Raises:
        BaseException: whatever it raised.
    """
    done: Future[T] = Future()

    def run() -> None:
        with Caught() as caught:
            done.set_result(asyncio.run(work))
        if caught.error is not None:
            done.set_exception(caught.error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return done.result()

"""MCP servers: programs, or addresses, that offer tools; each is held by a task of its own."""

import asyncio
import logging
import os
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TextIO, cast
from weakref import WeakKeyDictionary

from retrograde.environments.extras import extra
from retrograde.environments.tools.function import cleaned, told
from retrograde.environments.tools.limit import Caught
from retrograde.environments.tools.schema import checker
from retrograde.environments.tools.tool import Result, Tool, ToolEvent, never_run

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters

log = logging.getLogger(__name__)

GRACE_SECONDS = 2.0
"""How much later than the SDK's own limit a call is given up."""
STOP_SECONDS = 15.0
"""The SDK asks a server to end, then tells it to, then ends it, in less time than this."""
PAGES = 100
"""A server whose list of tools never ends is not waited for."""
TAIL = 600
"""Characters of a server's last words that a message repeats."""


class ServerError(ValueError):
    """An MCP server could not be started, or does not do as one should."""


class ServerDiedError(RuntimeError):
    """An MCP server ended in the middle of an episode. No fault of the policy's."""


class Server:
    """A running server, or a session with one that runs elsewhere."""

    def __init__(self, place: str) -> None:
        """Not started yet; see `started`."""
        self.place = place
        self.tools: tuple[Tool, ...] = ()
        """What it offers; run through `bound`."""
        self._client: Client | None = None
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_lost = False
        self._said = ""
        """Its last words, once it is over."""

    @classmethod
    async def started(cls, place: str, seconds: float) -> Self:
        """Start a server, or a session with it, and ask what it offers.

        Args:
            place: a command with its arguments, or a URL.
            seconds: how long that may take.

        Raises:
            ServerError: it did not start, or is no MCP server; with its own last words.
        """
        extra("mcp", "mcp")
        server = cls(place)
        ready = asyncio.get_running_loop().create_future()
        task = server._task = asyncio.create_task(server._held(ready, seconds))
        try:
            await asyncio.wait({ready, task}, timeout=seconds, return_when="FIRST_COMPLETED")
            is_late = not ready.done() and not task.done()
        finally:
            if not ready.done():
                # Seen to its end here: cancelled a second time, when the loop ends, the SDK would
                # leave the server running.
                task.cancel()
                await asyncio.wait({task}, timeout=STOP_SECONDS)
        if not ready.done():
            late = f"no answer within {seconds:g} seconds" if is_late else "it did not start"
            raise ServerError(server._obituary(late))
        return server

    @property
    def is_dead(self) -> bool:
        """Whether its session is over."""
        return self._is_lost or self._task is None or self._task.done()

    def bound(self, seconds: float) -> dict[str, Tool]:
        """Its tools, by name, each call with a time limit."""
        return {
            tool.name: replace(tool, run=partial(self.call, tool.name, seconds))
            for tool in self.tools
        }

    async def call(self, name: str, seconds: float, arguments: Mapping[str, Any]) -> Result:
        """Call a tool.

        Raises:
            ServerDiedError: there is no server any more.
        """
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT

        late = Result(f"Error: no result within {seconds:g} seconds", "tool/timeout")
        if self._client is None or self.is_dead:
            raise ServerDiedError(self._obituary("its session is over"))
        with Caught() as caught:
            async with asyncio.timeout(seconds + GRACE_SECONDS):
                result = await self._client.call_tool(name, dict(arguments), seconds)
            return _result(result)
        error = caught.error
        if isinstance(error, TimeoutError):
            return late
        if isinstance(error, MCPError) and error.code == REQUEST_TIMEOUT:
            return late
        is_closed = isinstance(error, MCPError) and error.code == CONNECTION_CLOSED
        if is_closed or not isinstance(error, MCPError | ValueError | RuntimeError) or self.is_dead:
            self._is_lost = True
            await self.stop()
            raise ServerDiedError(self._obituary(f"it is gone: {error!r}")) from error
        # Refused by the server, or a result that is not what its schema promises.
        return Result(cleaned(f"Error: {error}"), "tool/error")

    async def stop(self) -> None:
        """End the session, and with it a server that was started for it."""
        self._stop.set()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=STOP_SECONDS)
            if not self._task.done():
                self._task.cancel()
                await asyncio.wait({self._task}, timeout=GRACE_SECONDS)
            elif not self._task.cancelled() and (error := self._task.exception()) is not None:
                log.info("MCP server %s: when it was closed: %r", self.place, _innermost(error))

    async def _held(self, ready: "asyncio.Future[None]", seconds: float) -> None:
        # A session must be left by the task that entered it, so it gets a task of its own.
        from mcp import Client

        with tempfile.TemporaryFile(mode="w+", errors="replace") as stderr:
            try:
                target = self._target(stderr)
                async with Client(target, read_timeout_seconds=seconds, cache=None) as client:
                    self._client = client
                    self.tools = await _listed(client, self.place)
                    ready.set_result(None)
                    await self._stop.wait()
            finally:
                stderr.seek(0)
                self._said = stderr.read().strip()[-TAIL:]

    def _target(self, stderr: TextIO) -> Any:
        if is_address(self.place):
            return self.place
        from mcp.client.stdio import stdio_client

        return stdio_client(_command(self.place), errlog=stderr)

    def _obituary(self, what: str) -> str:
        """Why a server is no more, with its own last words."""
        task = self._task
        if task is not None and task.done() and not task.cancelled():
            error = task.exception()
            what = what if error is None else str(_innermost(error)) or repr(_innermost(error))
        words = f"; it said:\n{self._said}" if self._said else ""
        return f"MCP server {self.place!r}: {what}{words}"


def is_address(place: str) -> bool:
    """Whether a server is at a URL, and not to be started."""
    return place.startswith(("http://", "https://"))


def _command(place: str) -> "StdioServerParameters":
    from mcp.client.stdio import StdioServerParameters

    try:
        words = shlex.split(place)
    except ValueError as cause:
        raise ServerError(
            f"MCP server {place!r}: it cannot be read as a command: {cause}"
        ) from cause
    if not words:
        raise ServerError("MCP server: a command or a URL is needed, got nothing")
    return StdioServerParameters(command=words[0], args=words[1:])


async def _listed(client: "Client", place: str) -> tuple[Tool, ...]:
    found: list[Any] = []
    cursor: str | None = None
    for _ in range(PAGES):
        page = await client.list_tools(cursor=cursor)
        found += page.tools
        cursor = page.next_cursor
        if cursor is None:
            break
    return tuple(_tool(one, place) for one in found)


def _tool(found: Any, place: str) -> Tool:
    """A server's tool, named but not run; `bound` lets it run."""
    try:
        wrong = checker(found.input_schema)
    except ValueError as cause:
        raise ServerError(f"MCP server {place!r}: {found.name}: {cause}") from cause
    return Tool(found.name, found.description or "", found.input_schema, wrong, never_run)


def _result(result: Any) -> Result:
    """Everything a policy can read of a result; what it cannot is named and counted."""
    parts: list[str] = []
    event: ToolEvent | None = None
    for part in result.content:
        text = _readable(part)
        if text is None:
            event = "tool/part_left_out"
            text = f"[{part.type} left out: {_kind(part)}]"
        parts.append(text)
    if not parts and result.structured_content is not None:
        parts.append(told(result.structured_content))
    text = "\n".join(parts)
    if result.is_error:
        return Result(cleaned(text if text.startswith("Error") else f"Error: {text}"), "tool/error")
    return Result(cleaned(text), event)


def _readable(part: Any) -> str | None:
    if part.type == "text":
        return part.text
    if part.type == "resource_link":
        return f"[{part.name}: {part.uri}]"
    if part.type == "resource":
        return getattr(part.resource, "text", None)
    return None


def _kind(part: Any) -> str:
    held = part.resource if part.type == "resource" else part
    return str(getattr(held, "mime_type", None) or "no text")


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


@dataclass
class Pool:
    """Servers at one place: one for each episode, or one for all of an event loop."""

    place: str
    shared: bool
    """One server for all, for tools that keep nothing between calls. It ends with the loop."""
    seconds: float
    """How long a start may take."""
    _starting: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = field(
        default_factory=WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]
    )
    _common: WeakKeyDictionary[asyncio.AbstractEventLoop, "asyncio.Task[Server]"] = field(
        default_factory=WeakKeyDictionary[asyncio.AbstractEventLoop, "asyncio.Task[Server]"]
    )

    async def offered(self) -> Sequence[Tool]:
        """What a server at that place offers; found out from one that is ended at once.

        Raises:
            ServerError: there is none.
        """
        server = await Server.started(self.place, self.seconds)
        await server.stop()
        return server.tools

    async def lease(self) -> Server:
        """A server to call.

        Raises:
            ServerError: it did not start.
        """
        loop = asyncio.get_running_loop()
        if not self.shared:
            # Starting takes a core: all at once, each would take as long as all of them.
            free = self._starting.setdefault(loop, asyncio.Semaphore(os.cpu_count() or 1))
            async with free:
                return await Server.started(self.place, self.seconds)
        held = self._common.get(loop)
        if held is None or _is_lost(held):
            held = self._common[loop] = loop.create_task(Server.started(self.place, self.seconds))
        return await asyncio.shield(held)

    async def give_back(self, server: Server) -> None:
        """Done with it."""
        if not self.shared:
            await server.stop()


def _is_lost(held: "asyncio.Task[Server]") -> bool:
    """Whether a server did not start, or is no more."""
    if not held.done():
        return False
    return held.cancelled() or held.exception() is not None or held.result().is_dead

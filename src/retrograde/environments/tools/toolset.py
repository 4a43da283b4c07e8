"""Where the tools of an episode come from, put together: functions, an object, a server."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from retrograde.environments.protocol import Forking
from retrograde.environments.rows import Row
from retrograde.environments.tools.function import tool_of
from retrograde.environments.tools.limit import aside
from retrograde.environments.tools.server import Pool, Server
from retrograde.environments.tools.tool import Tool
from retrograde.environments.tools.toolbox import (
    Factory,
    check_reset,
    is_copyable,
    is_forkable,
    made,
    methods,
)

ROUTE = "environment"
"""The column that names a task's toolbox where there are several; TRL calls it so."""


@dataclass(frozen=True)
class Kit:
    """What one episode acts with."""

    tools: Mapping[str, Tool]
    toolbox: object = None
    server: Server | None = None


@dataclass(frozen=True)
class Toolset:
    """Everything there is to call."""

    functions: Sequence[Callable[..., Any]]
    toolbox: Factory | Mapping[str, Factory] | None
    pool: Pool | None
    seconds: float
    """How long a call may take."""
    deterministic: bool
    """Whether the same calls always have the same results."""

    @property
    def factories(self) -> Mapping[str, Factory]:
        """What makes toolboxes, by the name a task gives; a single one has no name."""
        if self.toolbox is None:
            return {}
        if isinstance(self.toolbox, Mapping):
            return cast("Mapping[str, Factory]", self.toolbox)
        return {"": self.toolbox}

    @cached_property
    def examples(self) -> Mapping[str, object]:
        """A toolbox of each kind that is never acted with, to be looked at."""
        return {
            name: factory(
                **({"seed": 0} if "seed" in inspect.signature(factory).parameters else {})
            )
            for name, factory in self.factories.items()
        }

    @cached_property
    def offered(self) -> Sequence[Tool]:
        """The tools of the server, asked for once, before any work.

        Raises:
            ServerError: there is no server at that place.
        """
        return () if self.pool is None else aside(self.pool.offered())

    @cached_property
    def _functions(self) -> Sequence[Tool]:
        return [tool_of(function, self.seconds) for function in self.functions]

    @property
    def forking(self) -> Forking:
        """By the toolbox's own fork; else only what is deterministic can be continued twice."""
        examples = self.examples.values()
        if self.pool is None and examples:
            if all(is_forkable(one) for one in examples):
                return Forking.FORK
            if self.deterministic and all(is_copyable(one) for one in examples):
                return Forking.FORK
        return Forking.REPLAY if self.deterministic else Forking.NONE

    def check(self, rows: Sequence[Row]) -> None:
        """Find out before any work what could not go well.

        Raises:
            ValueError: there is no tool, one has a name or a parameter that cannot be, or a task
                has no toolbox or one that cannot be reset to it.
        """
        for example in self.examples.values() or (None,):
            if not self.kit(example, None).tools:
                raise ValueError("functions, toolbox, mcp: at least one tool is needed, got none")
        seen: set[str] = set()
        for row in rows:
            name = self._name(row)
            if name is not None and name not in seen:
                seen.add(name)
                check_reset(self.examples[name], self._columns(row), row.where)

    def example(self, row: Row) -> object:
        """A toolbox such as the task's will be; None if it has none."""
        name = self._name(row)
        return None if name is None else self.examples[name]

    def kit(self, toolbox: object, server: Server | None) -> Kit:
        """Everything an episode acts with; without a server, its tools are only named.

        Raises:
            ValueError: two tools have one name.
        """
        own = {} if toolbox is None else methods(toolbox, self.seconds)
        served = self.offered if server is None else server.bound(self.seconds).values()
        tools = [*self._functions, *own.values(), *served]
        by_name = {tool.name: tool for tool in tools}
        if len(by_name) < len(tools):
            names = [tool.name for tool in tools]
            twice = sorted({name for name in names if names.count(name) > 1})
            raise ValueError(f"tools: each needs a name of its own; twice: {', '.join(twice)}")
        return Kit(by_name, toolbox, server)

    async def opened(self, row: Row, seed: int) -> tuple[Kit, str]:
        """What an episode of a task acts with, and what its toolbox says of the task.

        Raises:
            ServerError: a server did not start.
        """
        name, columns = self._name(row), self._columns(row)
        server = None if self.pool is None else await self.pool.lease()
        toolbox, told, kit = None, "", None
        try:
            if name is not None:
                toolbox, told = await made(self.factories[name], columns, seed, self.seconds)
            kit = self.kit(toolbox, server)
            return kit, told
        finally:
            if kit is None and self.pool is not None and server is not None:
                await self.pool.give_back(server)

    def _name(self, row: Row) -> str | None:
        """The kind of a task's toolbox; None if there are none.

        Raises:
            ValueError: the task names one that is not there.
        """
        if self.toolbox is None:
            return None
        if not isinstance(self.toolbox, Mapping):
            return ""
        name: Any = row.columns.get(ROUTE)
        if name not in self.factories:
            known = ", ".join(self.factories)
            raise ValueError(f"{row.where}, {ROUTE}: one of {known} is needed, got {name!r}")
        return name

    def _columns(self, row: Row) -> Mapping[str, Any]:
        """What a toolbox is reset with."""
        if not isinstance(self.toolbox, Mapping):
            return row.columns
        return {name: value for name, value in row.columns.items() if name != ROUTE}

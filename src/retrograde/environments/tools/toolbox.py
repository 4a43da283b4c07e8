"""Objects whose public methods are the tools of an episode, as TRL's environment classes are.

A class may have, besides its tools:

- `reset(**columns)`: begins a task; what it returns, if it is text, is put behind the last message.
- `get_reward()`: what the episode is worth.
- `fork(seed)`: an independent copy whose future chance is drawn from the seed.
- `close()`: releases what it holds.

These four are no tools, nor is anything whose name begins with an underscore.
"""

import copy
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from retrograde.environments.tools.function import tool_of
from retrograde.environments.tools.limit import Caught, within
from retrograde.environments.tools.tool import Tool

OWN = ("reset", "get_reward", "fork", "close")
"""Methods that are no tools."""
Factory = Callable[..., object]


def methods(toolbox: object, seconds: float) -> dict[str, Tool]:
    """The tools of an object, by name.

    Raises:
        ValueError: a method cannot be told in a schema; its parameter is named.
    """
    # Looked up on the class: on the object, properties would be evaluated.
    names = [
        name
        for name, _ in inspect.getmembers(type(toolbox), inspect.isfunction)
        if name not in OWN and not name.startswith("_")
    ]
    return {name: tool_of(getattr(toolbox, name), seconds) for name in names}


async def made(
    factory: Factory, row: Mapping[str, Any], seed: int, seconds: float
) -> tuple[object, str]:
    """A new object, reset to a task, and what it says of the task.

    Raises:
        BaseException: whatever its class raised.
    """
    seeded = {"seed": seed} if "seed" in inspect.signature(factory).parameters else {}
    toolbox = await within(seconds, factory, seeded)
    reset: Any = getattr(toolbox, "reset", None)
    said = None if reset is None else await within(seconds, reset, row)
    if said is not None and not isinstance(said, str):
        kind = type(toolbox).__name__
        raise ValueError(f"{kind}.reset: text or None is needed, got a {type(said).__name__}")
    return toolbox, said or ""


def check_reset(toolbox: object, columns: Mapping[str, Any], where: str) -> None:
    """Refuse an object whose `reset` cannot take a task's columns.

    Raises:
        ValueError: it cannot; what it lacks is named.
    """
    reset: Any = getattr(toolbox, "reset", None)
    if reset is None:
        return
    try:
        inspect.signature(reset).bind(**columns)
    except TypeError as cause:
        raise ValueError(
            f"{type(toolbox).__name__}.reset cannot take the columns of {where} "
            f"({', '.join(columns)}): {cause}; **columns takes them all"
        ) from cause


def is_forkable(toolbox: object) -> bool:
    """Whether it says itself how it is copied."""
    return callable(getattr(toolbox, "fork", None))


def is_copyable(toolbox: object) -> bool:
    """Whether a deep copy of it can be made."""
    with Caught() as caught:
        copy.deepcopy(toolbox)
    return caught.error is None


def forked(toolbox: object, seed: int) -> object:
    """A copy whose future chance is its own: by its `fork`, or else a deep one."""
    fork: Any = getattr(toolbox, "fork", None)
    return copy.deepcopy(toolbox) if fork is None else fork(seed)

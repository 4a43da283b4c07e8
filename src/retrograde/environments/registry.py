"""Every environment this library ships, by name. To add one, add a line.

A name may take an argument behind a colon (`gym:FrozenLake-v1`). Anything else with a colon is
the user's own: `FILE.py:NAME` or `package.module:NAME`.
"""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import cast

from retrograde.data.names import named
from retrograde.environments.hop import Hop
from retrograde.environments.lake import Lake
from retrograde.environments.market import Market
from retrograde.environments.own import own
from retrograde.environments.protocol import Environment
from retrograde.environments.tools.options import Tools
from retrograde.environments.verifiers.environment import Verifiers

ENVIRONMENTS: Mapping[str, Callable[..., Environment]] = MappingProxyType(
    {
        "hop": Hop,
        "lake": Lake,
        "market": Market,
        "tools": Tools,
        "verifiers": Verifiers,
    }
)

TAKES: Mapping[str, str] = MappingProxyType({"verifiers": "environment"})
"""The field that the argument behind the colon fills, for environments that take one."""


def environment_named(name: str) -> Callable[..., Environment]:
    """Look an environment up.

    Raises:
        ValueError: there is none of that name; the nearest ones are named.
    """
    first, colon, argument = name.partition(":")
    if colon and first not in ENVIRONMENTS:
        return _own(name)
    kind = named(ENVIRONMENTS, first, "environment")
    if not colon:
        return kind
    if first not in TAKES:
        raise ValueError(f"environment {first!r} takes nothing behind a colon, got {name!r}")
    return partial(kind, **{TAKES[first]: argument})


def _own(name: str) -> Callable[..., Environment]:
    found = own(name, "environment", f"{', '.join(ENVIRONMENTS)}, ")
    if callable(found):
        return cast("Callable[..., Environment]", found)
    return lambda: cast("Environment", found)

"""Every environment this library ships, by name. To add one, add a line.

A name may take an argument behind a colon (`gym:FrozenLake-v1`). Anything else with a colon is
the user's own: `FILE.py:NAME` or `package.module:NAME`.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, cast

from retrograde.data.names import named
from retrograde.data.places import found_at
from retrograde.environments.bfcl.environment import Bfcl
from retrograde.environments.extras import check_extra
from retrograde.environments.hop import Hop
from retrograde.environments.lake import Lake
from retrograde.environments.market import Market
from retrograde.environments.protocol import Environment
from retrograde.environments.textworld.environment import TextWorld

ENVIRONMENTS: Mapping[str, Callable[..., Environment]] = MappingProxyType(
    {
        "bfcl": Bfcl,
        "hop": Hop,
        "lake": Lake,
        "market": Market,
        "textworld": TextWorld,
    }
)

TAKES: Mapping[str, str] = MappingProxyType({})
"""The field that the argument behind the colon fills, for environments that take one."""


NEEDS: Mapping[str, tuple[tuple[str, ...], str]] = MappingProxyType({})
"""Optional modules that an environment cannot do without, and the extra that brings them."""


def check_installed(name: str) -> None:
    """See that the optional packages of an environment are there.

    Raises:
        MissingExtraError: one is not; the message holds the command that installs it.
    """
    modules, brings = NEEDS.get(name.partition(":")[0], ((), ""))
    for module in modules:
        check_extra(module, brings)


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
    found: Any = found_at(name, "environment", ", ".join(ENVIRONMENTS))
    if not callable(found):
        return lambda: cast("Environment", found)
    make = cast("Callable[..., Environment]", found)

    def made() -> Environment:
        return make()

    # The command line reads options from a signature, and takes a class without any for a value.
    return make if inspect.signature(make).parameters else made

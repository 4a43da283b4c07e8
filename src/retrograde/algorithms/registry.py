"""Every algorithm this library ships, by name. To add one, add a line."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from retrograde.algorithms.algorithm import Algorithm
from retrograde.algorithms.gigpo import gigpo
from retrograde.algorithms.grpo import grpo
from retrograde.algorithms.grpo_flat import grpo_flat
from retrograde.algorithms.leap import leap
from retrograde.algorithms.memopilot import memopilot
from retrograde.algorithms.planpo import planpo
from retrograde.algorithms.rtpo import rtpo
from retrograde.algorithms.rtpo_plus import rtpo_plus
from retrograde.algorithms.seeupo import seeupo
from retrograde.algorithms.stepo import stepo
from retrograde.algorithms.tcpo import tcpo
from retrograde.data.names import named

ALGORITHMS: Mapping[str, Callable[..., Algorithm]] = MappingProxyType(
    {
        "gigpo": gigpo,
        "grpo": grpo,
        "grpo_flat": grpo_flat,
        "leap": leap,
        "memopilot": memopilot,
        "planpo": planpo,
        "rtpo": rtpo,
        "rtpo_plus": rtpo_plus,
        "seeupo": seeupo,
        "stepo": stepo,
        "tcpo": tcpo,
    }
)


def algorithm_named(name: str) -> Callable[..., Algorithm]:
    """Look an algorithm up.

    Raises:
        ValueError: there is none of that name; the nearest ones are named.
    """
    return named(ALGORITHMS, name, "algorithm")

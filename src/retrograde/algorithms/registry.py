"""Every algorithm this library ships, by name. To add one, add a line."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from retrograde.algorithms.algorithm import Algorithm
from retrograde.algorithms.at2po import at2po
from retrograde.algorithms.atpo import atpo
from retrograde.algorithms.grpo import grpo
from retrograde.algorithms.grpo_flat import grpo_flat
from retrograde.algorithms.random_tree import random_tree
from retrograde.algorithms.rtpo import rtpo
from retrograde.algorithms.rtpo_plus import rtpo_plus
from retrograde.algorithms.tree_grpo import tree_grpo
from retrograde.algorithms.treepo import treepo
from retrograde.algorithms.treerl import treerl
from retrograde.data.names import named

ALGORITHMS: Mapping[str, Callable[..., Algorithm]] = MappingProxyType(
    {
        "at2po": at2po,
        "atpo": atpo,
        "grpo": grpo,
        "grpo_flat": grpo_flat,
        "random_tree": random_tree,
        "rtpo": rtpo,
        "rtpo_plus": rtpo_plus,
        "tree_grpo": tree_grpo,
        "treepo": treepo,
        "treerl": treerl,
    }
)


def algorithm_named(name: str) -> Callable[..., Algorithm]:
    """Look an algorithm up.

    Raises:
        ValueError: there is none of that name; the nearest ones are named.
    """
    return named(ALGORITHMS, name, "algorithm")

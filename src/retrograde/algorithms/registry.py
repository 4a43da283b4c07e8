"""Every algorithm this library ships, by name. To add one, add its name.

An algorithm's function is called like its module.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType

from retrograde.algorithms.algorithm import Algorithm
from retrograde.data.names import named

NAMES = (
    "a2tgpo",
    "aepo",
    "arpo",
    "at2po",
    "atpo",
    "cispo",
    "dapo",
    "dr_grpo",
    "gigpo",
    "grpo",
    "grpo_flat",
    "gspo",
    "leap",
    "memopilot",
    "patr",
    "planpo",
    "ppo",
    "random_tree",
    "reinforce",
    "reinforce_pp",
    "rloo",
    "rtpo",
    "rtpo_plus",
    "seeupo",
    "stepo",
    "tcpo",
    "tree_grpo",
    "treepo",
    "treerl",
    "turn_ppo",
)

ALGORITHMS: Mapping[str, Callable[..., Algorithm]] = MappingProxyType(
    {name: getattr(import_module(f"retrograde.algorithms.{name}"), name) for name in NAMES}
)


def algorithm_named(name: str) -> Callable[..., Algorithm]:
    """Look an algorithm up.

    Raises:
        ValueError: there is none of that name; the nearest ones are named.
    """
    return named(ALGORITHMS, name, "algorithm")

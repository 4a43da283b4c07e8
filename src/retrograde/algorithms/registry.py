"""Every algorithm this library ships, by name. To add one, add a line."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from retrograde.algorithms.a2tgpo import a2tgpo
from retrograde.algorithms.aepo import aepo
from retrograde.algorithms.algorithm import Algorithm
from retrograde.algorithms.arpo import arpo
from retrograde.algorithms.at2po import at2po
from retrograde.algorithms.atpo import atpo
from retrograde.algorithms.cispo import cispo
from retrograde.algorithms.dapo import dapo
from retrograde.algorithms.dr_grpo import dr_grpo
from retrograde.algorithms.gigpo import gigpo
from retrograde.algorithms.grpo import grpo
from retrograde.algorithms.grpo_flat import grpo_flat
from retrograde.algorithms.gspo import gspo
from retrograde.algorithms.leap import leap
from retrograde.algorithms.memopilot import memopilot
from retrograde.algorithms.patr import patr
from retrograde.algorithms.planpo import planpo
from retrograde.algorithms.ppo import ppo
from retrograde.algorithms.random_tree import random_tree
from retrograde.algorithms.reinforce import reinforce
from retrograde.algorithms.reinforce_pp import reinforce_pp
from retrograde.algorithms.rloo import rloo
from retrograde.algorithms.rtpo import rtpo
from retrograde.algorithms.rtpo_plus import rtpo_plus
from retrograde.algorithms.seeupo import seeupo
from retrograde.algorithms.stepo import stepo
from retrograde.algorithms.tcpo import tcpo
from retrograde.algorithms.tree_grpo import tree_grpo
from retrograde.algorithms.treepo import treepo
from retrograde.algorithms.treerl import treerl
from retrograde.algorithms.turn_ppo import turn_ppo
from retrograde.data.names import named

ALGORITHMS: Mapping[str, Callable[..., Algorithm]] = MappingProxyType(
    {
        "a2tgpo": a2tgpo,
        "aepo": aepo,
        "arpo": arpo,
        "at2po": at2po,
        "atpo": atpo,
        "cispo": cispo,
        "dapo": dapo,
        "dr_grpo": dr_grpo,
        "gigpo": gigpo,
        "grpo": grpo,
        "grpo_flat": grpo_flat,
        "gspo": gspo,
        "leap": leap,
        "memopilot": memopilot,
        "patr": patr,
        "planpo": planpo,
        "ppo": ppo,
        "random_tree": random_tree,
        "reinforce": reinforce,
        "reinforce_pp": reinforce_pp,
        "rloo": rloo,
        "rtpo": rtpo,
        "rtpo_plus": rtpo_plus,
        "seeupo": seeupo,
        "stepo": stepo,
        "tcpo": tcpo,
        "tree_grpo": tree_grpo,
        "treepo": treepo,
        "treerl": treerl,
        "turn_ppo": turn_ppo,
    }
)


def algorithm_named(name: str) -> Callable[..., Algorithm]:
    """Look an algorithm up.

    Raises:
        ValueError: there is none of that name; the nearest ones are named.
    """
    return named(ALGORITHMS, name, "algorithm")

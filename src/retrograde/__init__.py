"""Retrograde: reinforcement learning of multi-turn agents, from the last turn back.

Importing this package imports nothing heavy; each name is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from retrograde.algorithms.algorithm import Algorithm
    from retrograde.algorithms.registry import ALGORITHMS
    from retrograde.cli.python import train
    from retrograde.data.message import Message
    from retrograde.data.tree import End, Group, Tree, Turn
    from retrograde.environments.calls.call import Call
    from retrograde.environments.protocol import Environment, Episode, Forking, Observation
    from retrograde.environments.registry import ENVIRONMENTS
    from retrograde.environments.tools.environment import ToolEnvironment
    from retrograde.environments.tools.reward import Record
    from retrograde.rollouts.grow import Grower
    from retrograde.trainer.run import Run

__version__ = "0.1.0"

_HOMES = {
    "ALGORITHMS": "retrograde.algorithms.registry",
    "Algorithm": "retrograde.algorithms.algorithm",
    "Call": "retrograde.environments.calls.call",
    "ENVIRONMENTS": "retrograde.environments.registry",
    "End": "retrograde.data.tree",
    "Environment": "retrograde.environments.protocol",
    "Episode": "retrograde.environments.protocol",
    "Forking": "retrograde.environments.protocol",
    "Group": "retrograde.data.tree",
    "Grower": "retrograde.rollouts.grow",
    "Message": "retrograde.data.message",
    "Observation": "retrograde.environments.protocol",
    "Record": "retrograde.environments.tools.reward",
    "Run": "retrograde.trainer.run",
    "ToolEnvironment": "retrograde.environments.tools.environment",
    "Tree": "retrograde.data.tree",
    "Turn": "retrograde.data.tree",
    "train": "retrograde.cli.python",
}

__all__ = [
    "ALGORITHMS",
    "ENVIRONMENTS",
    "Algorithm",
    "Call",
    "End",
    "Environment",
    "Episode",
    "Forking",
    "Group",
    "Grower",
    "Message",
    "Observation",
    "Record",
    "Run",
    "ToolEnvironment",
    "Tree",
    "Turn",
    "train",
]


def __getattr__(name: str) -> object:
    """Load a public name."""
    if name not in _HOMES:
        raise AttributeError(f"module 'retrograde' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)

"""The settings of optimizer steps that algorithms take alike: keyword arguments of `Update`.

What is left out has that class's default.
"""

from typing import TypedDict


class Pace(TypedDict, total=False):
    """What every algorithm takes."""

    epochs: int
    """passes over the same rows (num_iterations, ppo_epochs)."""
    learning_rate: float | None
    """None takes what the model recommends."""
    warmup_steps: int
    """optimizer steps over which the learning rate rises."""


class Steps(Pace, total=False):
    """What algorithms take that learn once an iteration."""

    minibatches: int
    """optimizer steps in a pass; a group is never divided."""
    min_signal: int
    """rows with an advantage other than 0 that an update needs."""

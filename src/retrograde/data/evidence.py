"""What was found out about a group besides what its trees record; models were asked."""

from collections.abc import Mapping
from dataclasses import dataclass, field

Place = tuple[int, int]
"""Tree and turn."""
Values = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Empty where an algorithm asks for nothing."""

    values: Mapping[Place, tuple[float, ...]] = field(
        default_factory=dict[Place, tuple[float, ...]]
    )
    """What the critic says before each action token of a turn; for a critic of turns, one
    value, before the first."""
    gold_logp: Mapping[Place, float] = field(default_factory=dict[Place, float])
    """Mean log-probability, in nats a token, of the right final answer in the place of a turn."""
    progress: float = 0.0
    """How much of the run's budget is used, 0 to 1; for coefficients that decay."""


NO_EVIDENCE = Evidence()

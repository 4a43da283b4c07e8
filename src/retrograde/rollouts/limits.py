"""What a world may take, and how much of it a policy is shown."""

import math
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Limits:
    """Every limit has a default: a world that hangs must not hold a run up."""

    turn_seconds: float = 60.0
    """For each call into the environment: opening, an action, a copy, closing."""
    episode_seconds: float = 600.0
    """For all actions that led to where an episode stands."""
    reward_seconds: float = 120.0
    """For what the reward functions make of one turn."""
    observation_tokens: int = 2048
    """Longer observations are cut in the middle."""
    context_tokens: int | None = None
    """Tokens of a context and the longest answer to it, together; an episode that would pass it
    ends, truncated. None for no limit."""

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise ValueError(f"{entry.name}: a number above 0 is needed, got {value}")

"""What an environment can tell beyond an outcome."""

from enum import StrEnum


class Offer(StrEnum):
    """Methods that need one of these refuse an environment without it."""

    SCORES = "scores"
    """An `Observation.score` after every action."""
    TURN_REWARDS = "turn_rewards"
    """A reward after every action, not only after the last."""
    ATTEMPTS = "attempts"
    """Every turn is a try at the whole task, and its score says how good a try."""
    GOLD = "gold"
    """`Environment.gold` knows the right final answer."""

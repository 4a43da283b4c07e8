"""What the turns of a rollout earn, where reward functions say."""

from collections.abc import Mapping
from functools import lru_cache, partial
from typing import NamedTuple

from retrograde.environments.protocol import Environment
from retrograde.rewards.record import Known, Record, Said
from retrograde.rewards.weighted import Rewards, Weighted
from retrograde.rollouts.patience import at_once, within
from retrograde.rollouts.world import Breaking, settled, sound

REMEMBERED = 1 << 12
"""Tasks of which it is kept what is known of them."""


class Earned(NamedTuple):
    """What a turn earned."""

    reward: float
    """All parts, each times its weight."""
    parts: Mapping[str, float]
    """What each said, weights left out."""


class Judging:
    """Asks reward functions about the turns of an environment."""

    def __init__(
        self, environment: Environment, rewards: Rewards, max_new_tokens: int, seconds: float
    ) -> None:
        """Bind them; `seconds` is what one function may take for one turn."""
        self.rewards = rewards
        self.max_new_tokens = max_new_tokens
        self.seconds = seconds
        self._known = lru_cache(REMEMBERED)(partial(Known.of, environment))

    async def earned(self, task: str, turns: tuple[Said, ...], *, is_over: bool) -> Earned:
        """What the last of these turns earned.

        Raises:
            BrokenError: a function raised, took too long, or gave no finite number.
        """
        with Breaking("gold"):
            known = at_once(self.seconds, self._known, task)
        record = Record(task, turns, self.max_new_tokens, known.gold, known.columns)
        asked = [part for part in self.rewards.parts if is_over or part.is_for_turns]
        values = sound(await settled(self._value(part, record) for part in asked))
        parts = {part.name: value for part, value in zip(asked, values, strict=True)}
        return Earned(sum(part.weight * parts[part.name] for part in asked), parts)

    async def _value(self, part: Weighted, record: Record) -> float:
        with Breaking(f"reward/{part.name}"):
            what = f"reward {part.name}"
            return await within(self.seconds, lambda: part.value(record), what)

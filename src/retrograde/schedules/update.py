"""When to learn, from what, and how hard."""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypedDict

from retrograde.data.rows import Row
from retrograde.schedules.carry import Carry


@dataclass(frozen=True, slots=True)
class Update:
    """The optimizer's side of an algorithm."""

    every_round: bool = False
    """Learn and publish after each round of growth, not once the group is grown."""
    epochs: int = 1
    minibatches: int = 2
    """Optimizer steps an epoch; a group is never divided."""
    min_signal: int = 1
    """Rows with an advantage other than 0 that an update needs; with fewer it is skipped,
    and counted. A few noisy rows move every weight by about the learning rate under Adam."""
    replay: bool = False
    """Train also on the rows of the last rounds, as many as one sweep over the turns has."""
    last_turn_first: bool = False
    """Take the optimizer steps turn by turn, the last turn's first, on the same samples."""
    carry: Carry | None = None
    """With `last_turn_first`: what the later turns' updates do to earlier turns' advantages."""
    learning_rate: float | None = None
    """None takes what the model recommends."""
    warmup_steps: int = 10
    """Optimizer steps over which the learning rate rises linearly from 0."""
    max_grad_norm: float = 1.0

    def __post_init__(self) -> None:
        for name in ("epochs", "minibatches", "min_signal"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: at least 1 is needed, got {getattr(self, name)}")
        rate = self.learning_rate
        if rate is not None and not (math.isfinite(rate) and rate > 0):
            raise ValueError(f"learning_rate: above 0 is needed, got {self.learning_rate}")
        if self.warmup_steps < 0:
            raise ValueError(f"warmup_steps: at least 0 is needed, got {self.warmup_steps}")
        if self.carry is not None and not self.last_turn_first:
            raise ValueError("carry: last_turn_first is needed, got last_turn_first=False")
        if not self.max_grad_norm > 0:
            raise ValueError(f"max_grad_norm: above 0 is needed, got {self.max_grad_norm}")

    def has_signal(self, rows: Sequence[Row]) -> bool:
        """Whether enough rows would give a gradient."""
        return sum(row.is_informative for row in rows) >= self.min_signal

    def stages(self, rows: Sequence[Row]) -> list[list[Row]]:
        """What is trained one after the other: all rows, or those of each turn, last turn first."""
        if not self.last_turn_first:
            return [list(rows)]
        turns = sorted({row.turn for row in rows}, reverse=True)
        return [[row for row in rows if row.turn == turn] for turn in turns]

    def batches(self, rows: Sequence[Row], seed: int) -> Iterator[list[Row]]:
        """The minibatches of an update, epoch by epoch; groups shuffled, never divided."""
        rng = random.Random(seed)
        groups = sorted({row.group for row in rows})
        for _ in range(self.epochs):
            rng.shuffle(groups)
            for part in range(self.minibatches):
                mine = set(groups[part :: self.minibatches])
                batch = [row for row in rows if row.group in mine]
                if batch:
                    yield batch


class Pace(TypedDict, total=False):
    """Keyword arguments of `Update` that every algorithm takes; without them, its defaults."""

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

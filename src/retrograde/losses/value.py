"""The value loss: what a critic is, and what it minimises.

Shapes: S states of an update: one for each action token, or one for each turn.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from retrograde.data.rows import Row
from retrograde.losses.policy import Level
from retrograde.ops.regression import clipped_error, explained_variance, is_error_clipped


@dataclass(frozen=True, slots=True)
class ValueLoss:
    """Mean over states of .5 max((v - R)^2, (clip(v, v_old - c, v_old + c) - R)^2)."""

    level: Level = Level.TOKEN
    """TOKEN has a value before each action token, TURN one before the first of each turn."""
    clip: float | None = 0.5
    """How far values move in one update (cliprange_value); None for any way."""
    shared: bool = False
    """The critic is a head on the policy's own transformer, trained in the same steps; otherwise
    it is a copy of the initial transformer with a head, and has an optimizer of its own."""
    coefficient: float = 1.0
    """With `shared`: weight of this loss beside the policy's (vf_coef)."""
    speed: float = 1.0
    """Without `shared`: the critic's learning rate, as a multiple of the policy's."""

    def __post_init__(self) -> None:
        if self.level is Level.ROLLOUT:
            raise ValueError("level of a critic: token or turn is needed, got rollout")
        if self.clip is not None and not self.clip > 0:
            raise ValueError(f"value clip: above 0 is needed, got {self.clip}")
        for name in ("coefficient", "speed"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"value {name}: a number above 0 is needed, got {value}")

    def states(self, row: Row) -> int:
        """How many states a row has."""
        return len(row.action) if self.level is Level.TOKEN else 1

    def __call__(
        self, value_S: Float[Tensor, " S"], rows: Sequence[Row], total: int
    ) -> tuple[Float[Tensor, ""], dict[str, float]]:
        """The loss of some rows and its statistics; parts of an update add up to the whole.

        Args:
            value_S: what the critic says of the rows' states now, in order.
            rows: whole rows, each with a value and a target for each state.
            total: states of the whole update.

        Raises:
            ValueError: a row has no value or no target for some of its states.
        """
        behaviour_S, target_S = self.recorded(rows, value_S)
        loss = clipped_error(value_S, behaviour_S, target_S, self.clip).sum() / total
        clipped = 0.0
        if self.clip is not None:
            active_S = is_error_clipped(value_S.detach(), behaviour_S, target_S, self.clip)
            clipped = float(active_S.sum())
        seen = {"value/loss": float(loss.detach()), "value/clip_ratio": clipped / total}
        return loss, seen

    def recorded(self, rows: Sequence[Row], like: Tensor) -> tuple[Tensor, Tensor]:
        """Values and targets of the rows' states, in order, as tensors like another."""
        for row in rows:
            needed, got = self.states(row), (len(row.values), len(row.target))
            if got != (needed, needed):
                raise ValueError(
                    f"a row of {len(row.action)} tokens needs {needed} values and targets for a "
                    f"critic of {self.level}s, got {got[0]} and {got[1]}"
                )
        values = [value for row in rows for value in row.values]
        targets = [value for row in rows for value in row.target]
        return like.new_tensor(values), like.new_tensor(targets)

    def figures(self, rows: Sequence[Row]) -> dict[str, float]:
        """How good the recorded values were; nothing where the targets do not vary."""
        value_S, target_S = self.recorded(rows, torch.zeros(0, dtype=torch.float64))
        explained = explained_variance(value_S, target_S)
        return {} if explained is None else {"value/explained_variance": explained}

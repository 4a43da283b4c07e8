"""The tokens of an update, as the losses see them: no padding, no mask.

Shapes: T action tokens.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from retrograde.data.rows import Row


@dataclass(frozen=True, slots=True)
class ActionTokens:
    """Every action token of an update with what the loss needs to know of it."""

    behaviour_logp: Float[Tensor, " T"]
    """log mu under the policy that acted, in nats."""
    advantage: Float[Tensor, " T"]
    turn: Int[Tensor, " T"]
    """Which row (a visit to a turn) the token belongs to, 0 up to `num_turns`."""
    rollout: Int[Tensor, " T"]
    """Which rollout the token belongs to, 0 up to `num_rollouts`."""
    num_turns: int
    num_rollouts: int
    clip_scale: Float[Tensor, " T"] | None = None
    """Factor of both clip bounds; None for 1."""
    reference_logp: Float[Tensor, " T"] | None = None
    """log-probability under the frozen initial policy; only where a penalty asks for it."""

    @classmethod
    def of(cls, rows: Sequence[Row]) -> "ActionTokens":
        """The tokens of rows, in order."""
        lengths = torch.tensor([len(row.action) for row in rows], dtype=torch.long)
        numbers = {key: i for i, key in enumerate(dict.fromkeys(row.rollout for row in rows))}
        rollout = torch.tensor([numbers[row.rollout] for row in rows], dtype=torch.long)
        logp = [value for row in rows for value in row.behaviour_logp]
        return cls(
            behaviour_logp=torch.tensor(logp, dtype=torch.float32),
            advantage=torch.tensor([a for r in rows for a in r.advantages], dtype=torch.float32),
            turn=torch.arange(len(rows)).repeat_interleave(lengths),
            rollout=rollout.repeat_interleave(lengths),
            num_turns=len(rows),
            num_rollouts=len(numbers),
            clip_scale=(
                torch.tensor([row.clip_scale for row in rows]).repeat_interleave(lengths)
                if any(row.clip_scale != 1 for row in rows)
                else None
            ),
        )

    def to(self, device: torch.device) -> "ActionTokens":
        """The same tokens on a device."""
        return self._each(lambda tensor: tensor.to(device))

    def at(self, kept_T: Tensor) -> "ActionTokens":
        """Some of the tokens, by index or by mask; they keep their turn and rollout numbers."""
        return self._each(lambda tensor: tensor[kept_T])

    def _each(self, change: Callable[[Tensor], Tensor]) -> "ActionTokens":
        scale, reference = self.clip_scale, self.reference_logp
        return replace(
            self,
            behaviour_logp=change(self.behaviour_logp),
            advantage=change(self.advantage),
            turn=change(self.turn),
            rollout=change(self.rollout),
            clip_scale=None if scale is None else change(scale),
            reference_logp=None if reference is None else change(reference),
        )

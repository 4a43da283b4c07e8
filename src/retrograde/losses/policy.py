"""The policy loss: ratio x surrogate x mean, and a penalty.

Shapes: T action tokens.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from retrograde.data.batch import ActionTokens
from retrograde.ops.divergences import k3
from retrograde.ops.ratios import geometric_ratio, token_ratio
from retrograde.ops.surrogates import clipped, is_clipped
from retrograde.ops.weights import equal_shares, segment_shares


class Level(StrEnum):
    """Which tokens share an importance ratio."""

    TOKEN = "token"
    TURN = "turn"
    ROLLOUT = "rollout"


class Mean(StrEnum):
    """What counts as one in the mean."""

    TOKEN = "token"
    """Every token of the update counts the same."""
    TURN = "turn"
    """Mean over a turn's tokens, then over turns."""
    SUM = "sum"
    """Sum over a turn's tokens, mean over turns: the one whose gradient is exact."""
    ROLLOUT = "rollout"
    """Mean over a rollout's tokens, then over rollouts."""


@dataclass(frozen=True, slots=True)
class PolicyLoss:
    """Weighted sum, over action tokens, of surrogate(ratio, advantage) + kl * k3.

    RTPO is mean=TURN; GRPO is mean=ROLLOUT; DAPO is mean=TOKEN; GSPO is ratio=ROLLOUT.
    """

    clip_low: float = 0.2
    clip_high: float = 0.2
    ratio: Level = Level.TOKEN
    mean: Mean = Mean.TURN
    kl: float = 0.0
    """Coefficient of the k3 penalty against the initial policy; 0 leaves it out."""

    def __post_init__(self) -> None:
        if not (0 < self.clip_low <= 1 and self.clip_high > 0):
            raise ValueError(
                f"clip bounds: low in (0, 1] and high above 0 are needed, "
                f"got low={self.clip_low}, high={self.clip_high}"
            )
        if not (math.isfinite(self.kl) and self.kl >= 0):
            raise ValueError(f"kl: a coefficient of at least 0 is needed, got {self.kl}")

    def weights(self, tokens: ActionTokens) -> Float64[Tensor, " T"]:
        """Each token's share of the loss. Taken once over a whole update, before it is split."""
        if self.mean is Mean.TOKEN:
            return equal_shares(
                torch.arange(len(tokens.turn), device=tokens.turn.device), len(tokens.turn)
            )
        if self.mean is Mean.TURN:
            return equal_shares(tokens.turn, tokens.num_turns)
        if self.mean is Mean.SUM:
            return segment_shares(tokens.turn, tokens.num_turns)
        return equal_shares(tokens.rollout, tokens.num_rollouts)

    def ratios(self, logp_T: Float[Tensor, " T"], tokens: ActionTokens) -> Float[Tensor, " T"]:
        """The importance ratio of each token, at this loss's level."""
        if self.ratio is Level.TOKEN:
            return token_ratio(logp_T, tokens.behaviour_logp)
        if self.ratio is Level.TURN:
            return geometric_ratio(logp_T, tokens.behaviour_logp, tokens.turn, tokens.num_turns)
        return geometric_ratio(logp_T, tokens.behaviour_logp, tokens.rollout, tokens.num_rollouts)

    def __call__(
        self, logp_T: Float[Tensor, " T"], tokens: ActionTokens, weight_T: Float64[Tensor, " T"]
    ) -> Float64[Tensor, ""]:
        """The loss; losses of the parts of an update add up to the loss of the whole.

        A part holds whole segments of the ratio's level.

        Raises:
            ValueError: the penalty is on and the tokens carry no reference log-probabilities.
        """
        ratio_T = self.ratios(logp_T, tokens)
        loss_T = clipped(ratio_T, tokens.advantage, self.clip_low, self.clip_high)
        if self.kl:
            if tokens.reference_logp is None:
                raise ValueError("kl is above 0, which needs the reference policy's logprobs: none")
            loss_T = loss_T + self.kl * k3(logp_T, tokens.reference_logp)
        return (weight_T * loss_T).sum()

    def statistics(self, logp_T: Tensor, tokens: ActionTokens) -> dict[str, float]:
        """Sums over the tokens given, for `clip_ratio`, `ratio` and how far from 1 it went."""
        with torch.no_grad():
            ratio_T = self.ratios(logp_T, tokens)
            inactive_T = is_clipped(ratio_T, tokens.advantage, self.clip_low, self.clip_high)
            return {
                "tokens": float(len(logp_T)),
                "clipped": float(inactive_T.sum()),
                "ratio": float(ratio_T.sum()),
                "log_ratio": float(ratio_T.log().abs().sum()),
                "ratio_error": float((ratio_T - 1).abs().max()) if len(ratio_T) else 0.0,
            }

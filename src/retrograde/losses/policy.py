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
from retrograde.ops.surrogates import (
    Bound,
    clipped,
    clipped_weight,
    dual_clipped,
    is_clipped,
    softly_clipped,
    weighted_logp,
)
from retrograde.ops.weights import equal_shares, segment_shares


class Level(StrEnum):
    """Which tokens share an importance ratio."""

    TOKEN = "token"
    TURN = "turn"
    ROLLOUT = "rollout"


class Surrogate(StrEnum):
    """What is done with the ratio."""

    CLIPPED = "clipped"
    """PPO's: no gradient beyond the bounds."""
    CLIPPED_WEIGHT = "clipped_weight"
    """CISPO's: the bounded ratio is a weight of log pi, and no token loses its gradient."""
    SOFTLY_CLIPPED = "softly_clipped"
    """AEPO's: above the upper bound the value stays and the gradient goes on."""
    UNWEIGHTED = "unweighted"
    """REINFORCE's: log pi without a ratio."""


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
    ROLLOUT_TURNS = "rollout_turns"
    """Mean over a turn's tokens, sum over a rollout's turns, mean over rollouts."""
    ROLLOUT_SUM = "rollout_sum"
    """Sum over a rollout's tokens over `PolicyLoss.length`, mean over rollouts."""


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
    surrogate: Surrogate = Surrogate.CLIPPED
    dual_clip: float | None = None
    """With CLIPPED: bound, above 1, of the loss of a token with a negative advantage, as a
    multiple of it."""
    length: float = 1.0
    """With ROLLOUT_SUM: the constant that sums over tokens are divided by."""

    def __post_init__(self) -> None:
        if not (0 < self.clip_low <= 1 and self.clip_high > 0):
            raise ValueError(
                f"clip bounds: low in (0, 1] and high above 0 are needed, "
                f"got low={self.clip_low}, high={self.clip_high}"
            )
        if self.dual_clip is not None and not self.dual_clip > 1:
            raise ValueError(f"dual_clip: above 1 is needed, got {self.dual_clip}")
        if not (math.isfinite(self.length) and self.length > 0):
            raise ValueError(f"length: a number above 0 is needed, got {self.length}")
        if not (math.isfinite(self.kl) and self.kl >= 0):
            raise ValueError(f"kl: a coefficient of at least 0 is needed, got {self.kl}")

    def weights(self, tokens: ActionTokens) -> Float64[Tensor, " T"]:
        """Each token's share of the loss. Taken once over a whole update, before it is split."""
        if self.mean is Mean.TOKEN:
            every = torch.arange(len(tokens.turn), device=tokens.turn.device)
            return equal_shares(every, len(tokens.turn))
        if self.mean is Mean.TURN:
            return equal_shares(tokens.turn, tokens.num_turns)
        if self.mean is Mean.SUM:
            return segment_shares(tokens.turn, tokens.num_turns)
        if self.mean is Mean.ROLLOUT:
            return equal_shares(tokens.rollout, tokens.num_rollouts)
        if self.mean is Mean.ROLLOUT_SUM:
            return segment_shares(tokens.rollout, tokens.num_rollouts) / self.length
        # Rows are never empty, so every turn and rollout has tokens.
        share_T = equal_shares(tokens.turn, tokens.num_turns)
        return share_T * (tokens.num_turns / max(tokens.num_rollouts, 1))

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
        loss_T = self._surrogate(ratio_T, logp_T, tokens)
        if self.kl:
            if tokens.reference_logp is None:
                raise ValueError("kl is above 0, which needs the reference policy's logprobs: none")
            loss_T = loss_T + self.kl * k3(logp_T, tokens.reference_logp)
        return (weight_T * loss_T).sum()

    def _surrogate(self, ratio_T: Tensor, logp_T: Tensor, tokens: ActionTokens) -> Tensor:
        low, high = self._bounds(tokens)
        if self.surrogate is Surrogate.UNWEIGHTED:
            return weighted_logp(logp_T, tokens.advantage)
        if self.surrogate is Surrogate.CLIPPED_WEIGHT:
            return clipped_weight(ratio_T, logp_T, tokens.advantage, low, high)
        if self.surrogate is Surrogate.SOFTLY_CLIPPED:
            return softly_clipped(ratio_T, tokens.advantage, low, high)
        loss_T = clipped(ratio_T, tokens.advantage, low, high)
        if self.dual_clip is None:
            return loss_T
        return dual_clipped(loss_T, tokens.advantage, self.dual_clip)

    def _bounds(self, tokens: ActionTokens) -> tuple[Bound, Bound]:
        if tokens.clip_scale is None:
            return self.clip_low, self.clip_high
        return self.clip_low * tokens.clip_scale, self.clip_high * tokens.clip_scale

    def statistics(self, logp_T: Tensor, tokens: ActionTokens) -> dict[str, float]:
        """Sums over the tokens given, for `clip_ratio`, `ratio` and how far from 1 it went."""
        with torch.no_grad():
            ratio_T = self.ratios(logp_T, tokens)
            inactive_T = is_clipped(ratio_T, tokens.advantage, *self._bounds(tokens))
            return {
                "tokens": float(len(logp_T)),
                "clipped": float(inactive_T.sum()),
                "ratio": float(ratio_T.sum()),
                "log_ratio": float(ratio_T.log().abs().sum()),
                "ratio_error": float((ratio_T - 1).abs().max()) if len(ratio_T) else 0.0,
            }

"""Cutting a distribution down to its likelier tokens.

Shapes: any leading axes, V vocabulary.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Cut:
    """Which tokens may be drawn. All three apply, in this order; the likeliest always may.

    Source:
        Holtzman et al. 2020, arXiv:1904.09751 (top-p); Fan et al. 2018, arXiv:1805.04833 (top-k);
        Nguyen et al. 2024, arXiv:2407.01082 (min-p).
    Differs from the source:
        tokens that tie with the last one that is kept are kept too, so that what is kept does not
        hang on the order of a sort.
    """

    top_k: int = 0
    """The k likeliest; 0 for all."""
    top_p: float = 1.0
    """The fewest whose probabilities sum up to p."""
    min_p: float = 0.0
    """Those at least so likely, relative to the likeliest."""

    def __post_init__(self) -> None:
        if self.top_k < 0:
            raise ValueError(f"top_k: at least 0 is needed (0 keeps all), got {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p: above 0 and at most 1 is needed, got {self.top_p}")
        if not 0 <= self.min_p <= 1:
            raise ValueError(f"min_p: between 0 and 1 is needed, got {self.min_p}")

    @property
    def is_whole(self) -> bool:
        """Whether nothing is cut off."""
        return self == WHOLE

    def kept(self, scores_V: Float[Tensor, "*n V"]) -> Bool[Tensor, "*n V"]:
        """Which tokens may be drawn.

        Args:
            scores_V: logits, divided by the temperature.
        """
        kept_V = torch.ones_like(scores_V, dtype=torch.bool)
        if 0 < self.top_k < scores_V.shape[-1]:
            kept_V &= scores_V >= scores_V.topk(self.top_k).values[..., -1:]
        if self.top_p < 1:
            probs_V = scores_V.masked_fill(~kept_V, -torch.inf).softmax(-1)
            sorted_V = probs_V.sort(dim=-1, descending=True).values
            before_V = sorted_V.double().cumsum(-1) - sorted_V
            # The first always counts; ever after, those before which p is not yet reached.
            last = ((before_V < self.top_p).sum(-1, keepdim=True) - 1).clamp(min=0)
            kept_V &= probs_V >= sorted_V.gather(-1, last)
        if self.min_p > 0:
            best = scores_V.amax(-1, keepdim=True)
            kept_V &= scores_V >= best + math.log(self.min_p)
        return kept_V

    def applied(
        self, scores_V: Float[Tensor, "*n V"], chosen: Int[Tensor, "*n"] | None = None
    ) -> Float[Tensor, "*n V"]:
        """Scores with minus infinity where nothing may be drawn.

        Args:
            scores_V: logits, divided by the temperature.
            chosen: what was drawn; it is kept whatever rounding says of a token at the edge.
        """
        if self.is_whole:
            return scores_V
        kept_V = self.kept(scores_V.detach())
        if chosen is not None:
            kept_V.scatter_(-1, chosen.unsqueeze(-1), value=True)
        return scores_V.masked_fill(~kept_V, -torch.inf)


WHOLE = Cut()

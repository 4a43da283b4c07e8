"""Drawing the next token of many answers at once.

Shapes: B answers, R distributions, V vocabulary, C contexts of a call, T tokens an answer may take.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from retrograde.ops.cut import WHOLE
from retrograde.ops.logprobs import scaled
from retrograde.policies.protocol import Sampling

FAINTEST = -1e4
"""Log-probabilities are cut off here for the entropy: 0 times minus infinity is no number."""


class Drawn(NamedTuple):
    """The next token of each answer."""

    token_B: Tensor
    logp_B: Tensor
    """In nats, under the distribution it was drawn from."""
    entropy_B: Tensor
    """Of that distribution, in nats."""


@dataclass(frozen=True)
class Choice:
    """Draws for one call.

    The luck of each answer is its own: what is drawn does not depend on which answers advance
    together, or in which order.
    """

    sampling: Sampling
    luck_CT: Tensor
    """Uniform on [0, 1): one number a token of an answer."""

    @classmethod
    def of(cls, sampling: Sampling, contexts: int, seed: int, device: torch.device) -> "Choice":
        """Throw all the dice of a call."""
        generator = torch.Generator("cpu").manual_seed(seed)
        shape = (contexts, sampling.max_new_tokens)
        luck_CT = torch.rand(shape, generator=generator, dtype=torch.float64)
        return cls(sampling, luck_CT.to(device))

    def __call__(self, logits_BV: Tensor, owner_B: Tensor, length_B: Tensor) -> Drawn:
        """Draw, or take the likeliest at temperature 0.

        At temperature 0 log-probability and entropy are those of the unscaled, whole
        distribution.

        Args:
            logits_BV: of the next token.
            owner_B: which answer each row is of.
            length_B: tokens it has so far.
        """
        scores_BV = self.scores(logits_BV)
        rows = torch.arange(len(logits_BV), device=logits_BV.device)
        token_B = self.tokens(scores_BV, rows, owner_B, length_B)
        return Drawn(token_B, *figures(scores_BV, rows, token_B))

    def scores(self, logits_BV: Tensor) -> Tensor:
        """What is drawn from: as the temperature says, and minus infinity where nothing may be."""
        temperature = self.sampling.temperature
        cut = self.sampling.cut if temperature else WHOLE
        return cut.applied(scaled(logits_BV, temperature or 1.0))

    def tokens(self, scores_RV: Tensor, row_B: Tensor, owner_B: Tensor, length_B: Tensor) -> Tensor:
        """Draw from distributions that several answers may share.

        Args:
            scores_RV: of the next token.
            row_B: which of them each answer draws from.
            owner_B: which answer it is.
            length_B: tokens it has so far.
        """
        if self.sampling.temperature == 0:
            return scores_RV.argmax(-1)[row_B]
        sum_BV = scores_RV.softmax(-1).cumsum(-1, dtype=torch.float64)[row_B]
        aim_B = self.luck_CT[owner_B, length_B] * sum_BV[:, -1]
        return torch.searchsorted(sum_BV, aim_B[:, None], right=True)[:, 0]


def figures(scores_RV: Tensor, row_B: Tensor, token_B: Tensor) -> tuple[Tensor, Tensor]:
    """log pi of tokens and the entropy of what each was drawn from, in nats."""
    logp_RV = scores_RV.log_softmax(-1)
    entropy_R = -(logp_RV.exp() * logp_RV.clamp(min=FAINTEST)).sum(-1)
    return logp_RV[row_B, token_B], entropy_R[row_B]

"""Log-probabilities of chosen tokens.

Shapes: any leading axes, V vocabulary.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from retrograde.ops.cut import WHOLE, Cut


def selected_logp(
    logits_V: Float[Tensor, "*n V"],
    chosen: Int[Tensor, "*n"],
    temperature: float,
    cut: Cut = WHOLE,
) -> Float[Tensor, "*n"]:
    """log softmax(logits / temperature) at the chosen ids, in nats.

    Taken as gather minus logsumexp, so no second array of the vocabulary's size is kept.

    Args:
        logits_V: unscaled scores; half precision is summed in float32.
        chosen: token ids.
        temperature: the one the tokens were drawn with, above 0.
        cut: which tokens could be drawn; those that were are taken to be among them.
    """
    scaled_V = cut.applied(scaled(logits_V, temperature), chosen)
    picked = scaled_V.gather(-1, chosen.unsqueeze(-1)).squeeze(-1)
    return picked - scaled_V.logsumexp(-1)


def scaled(logits_V: Float[Tensor, "*n V"], temperature: float) -> Float[Tensor, "*n V"]:
    """Logits by temperature; half precision becomes float32."""
    wide_V = logits_V if logits_V.dtype is torch.float64 else logits_V.float()
    return wide_V if temperature == 1.0 else wide_V / temperature

"""Log-probabilities of chosen tokens.

Shapes: any leading axes, V vocabulary.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def selected_logp(
    logits_V: Float[Tensor, "*n V"], chosen: Int[Tensor, "*n"], temperature: float
) -> Float[Tensor, "*n"]:
    """log softmax(logits / temperature) at the chosen ids, in nats.

    Taken as gather minus logsumexp, so no second array of the vocabulary's size is kept.

    Args:
        logits_V: unscaled scores; half precision is summed in float32.
        chosen: token ids.
        temperature: the one the tokens were drawn with, above 0.
    """
    wide_V = logits_V if logits_V.dtype is torch.float64 else logits_V.float()
    scaled_V = wide_V if temperature == 1.0 else wide_V / temperature
    picked = scaled_V.gather(-1, chosen.unsqueeze(-1)).squeeze(-1)
    return picked - scaled_V.logsumexp(-1)

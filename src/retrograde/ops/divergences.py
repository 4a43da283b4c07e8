"""Estimators of KL(pi || reference) from tokens that pi sampled.

Shapes: T action tokens. Log-probabilities in nats.
"""

from jaxtyping import Float
from torch import Tensor


def k3(logp_T: Float[Tensor, " T"], reference_logp_T: Float[Tensor, " T"]) -> Float[Tensor, " T"]:
    """exp(-d) - 1 + d with d = log pi - log reference: never negative, unbiased in value.

    Its gradient, taken as a loss, is not the gradient of the divergence; it is what the
    field uses.

    Source:
        Schulman 2020, "Approximating KL divergence"; GRPO, arXiv:2402.03300, equation 4.
    """
    difference_T = logp_T - reference_logp_T
    return (-difference_T).exp() - 1.0 + difference_T

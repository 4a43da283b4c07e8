"""Importance ratios between the current policy and the one that acted.

Shapes: T action tokens. Log-probabilities in nats.
"""

from jaxtyping import Float, Int
from torch import Tensor

from retrograde.ops.segments import segment_mean


def token_ratio(
    logp_T: Float[Tensor, " T"], behaviour_logp_T: Float[Tensor, " T"]
) -> Float[Tensor, " T"]:
    """pi(t) / mu(t) of each token, with gradient.

    Source:
        PPO, arXiv:1707.06347, equation 6.
    """
    return (logp_T - behaviour_logp_T).exp()


def geometric_ratio(
    logp_T: Float[Tensor, " T"],
    behaviour_logp_T: Float[Tensor, " T"],
    segment_T: Int[Tensor, " T"],
    num_segments: int,
) -> Float[Tensor, " T"]:
    """Length-normalised importance ratio of each token's segment.

    The value at token t is s(k) = exp(mean over segment k of log pi - log mu),
    where k is the segment of t. The gradient flows through pi(t) alone: with
    sg for stop-gradient, s_t = sg[s(k)] * pi(t) / sg[pi(t)].

    Args:
        logp_T: log pi of each action token, with gradient.
        behaviour_logp_T: log mu of each action token as recorded by the sampler.
        segment_T: rollout of each token for GSPO, turn of each token for ATPO.
        num_segments: how many segments there are.

    Source:
        GSPO, arXiv:2507.18071, the token-level variant (GSPO-token).
    """
    log_ratio_S = segment_mean((logp_T - behaviour_logp_T).detach(), segment_T, num_segments)
    return (logp_T - logp_T.detach() + log_ratio_S[segment_T]).exp()

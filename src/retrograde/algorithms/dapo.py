"""DAPO: only tasks whose rollouts differ train, and more tasks are tried until there are enough.

Source: Yu et al. 2025, arXiv:2503.14476, equations 8 to 13.
Differs from the source:
    Groups are 8 rollouts; the paper takes 16. The penalty for length is the paper's: short answers
    never meet it. All informative groups train; verl cuts them to its batch size (`Resample`).
"""

from typing import Unpack

from retrograde.algorithms.algorithm import Algorithm, Mean, PolicyLoss, Steps, Update
from retrograde.credit.dynamic_sampling import DynamicSampling
from retrograde.rollouts.resample import Resample


def dapo(
    *,
    rollouts: int = 8,
    max_batches: int = 10,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    longest: int = 20480,
    buffer: int = 4096,
    overlong: float = 1.0,
    **steps: Unpack[Steps],
) -> Algorithm:
    """Decoupled clip and dynamic sampling policy optimization.

    Args:
        rollouts: rollouts of each task, at least 2.
        max_batches: most tasks of an iteration, as a multiple of --prompts (ours).
        clip_low: bound of the token ratio below 1.
        clip_high: bound of the token ratio above 1.
        longest: action tokens of a rollout at which the penalty for length is whole.
        buffer: action tokens before that at which it begins.
        overlong: the whole penalty, taken off the return; 0 for none.
    """
    credit = DynamicSampling(longest, buffer, overlong)
    loss = PolicyLoss(clip_low, clip_high, mean=Mean.TOKEN)
    return Algorithm(Resample(rollouts, max_batches), credit, loss, Update(**steps))

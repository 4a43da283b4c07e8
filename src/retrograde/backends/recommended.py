"""What a run takes for settings that are left open, by the kind of model."""

from dataclasses import dataclass

from retrograde.backends.model_options import ModelOptions
from retrograde.environments.protocol import Environment


@dataclass(frozen=True, slots=True)
class Recommended:
    """What a run takes for settings that are left open."""

    learning_rate: float
    prompts: int
    eval_episodes: int
    max_env_steps: int | None
    """Length of a run that sets neither steps nor this; None for 10 iterations."""
    threads: int | None
    """Threads of one operation; None for all cores. A very small model gains nothing from a
    second one, and with one its numbers are the same on every machine with this processor."""
    token_factor: int
    """Tokens an answer may take, as a multiple of the environment's `max_new_tokens`, which
    counts words and thinks of a policy that was shown how to answer."""

    def answer_tokens(self, environment: Environment, options: ModelOptions) -> int:
        """Tokens an answer may take."""
        return options.max_new_tokens or environment.max_new_tokens * self.token_factor


EMBEDDED = Recommended(5e-4, 32, 256, 40_000, 1, 1)
PRETRAINED = Recommended(1e-6, 2, 4, None, None, 2)
"""For a model that takes seconds to say a sentence on a CPU; a GPU wants more prompts."""

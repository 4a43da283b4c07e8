"""The pieces of a run, put together around a loaded model."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from retrograde.backends.critic import SharedCritic, TransformersCritic, critic_of
from retrograde.backends.learner import TransformersLearner
from retrograde.backends.loaded import LoadedModel
from retrograde.backends.sampler import TransformersPolicy
from retrograde.cli.settings import Settings
from retrograde.rendering.history import Renderer

CRITIC = "critic/"
"""Begins the names of a critic's tensors in a checkpoint."""


@dataclass
class Parts:
    """The pieces of a run that are put together here."""

    loaded: LoadedModel
    policy: TransformersPolicy
    learner: TransformersLearner
    critic: TransformersCritic | SharedCritic | None
    renderer: Renderer
    max_new_tokens: int

    def state(self) -> dict[str, Tensor]:
        """What a resumed run needs besides the policy's weights."""
        critic = {} if self.critic is None else self.critic.state()
        return self.learner.state() | {f"{CRITIC}{name}": critic[name] for name in critic}

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Take back what `state` gave.

        Raises:
            ValueError: it is of a run of another kind.
        """
        own = {n.removeprefix(CRITIC): t for n, t in tensors.items() if n.startswith(CRITIC)}
        try:
            self.learner.load_state(tensors)
            if self.critic is not None:
                self.critic.load_state(own)
        except (KeyError, RuntimeError) as cause:
            raise ValueError(
                f"the checkpoint is of a run that trained something else, and cannot be gone on "
                f"with: {cause}"
            ) from cause


def parts_of(settings: Settings, loaded: LoadedModel) -> Parts:
    """Everything of a run that is built around a loaded model."""
    run, budget = settings.run, settings.run.max_tokens_per_microbatch
    chat, update = loaded.chat, settings.algorithm.update
    critic = critic_of(
        settings.algorithm.critic,
        loaded.model,
        update,
        pad=chat.end_of_turn,
        weight_decay=run.weight_decay,
        max_tokens_per_microbatch=budget,
    )
    return Parts(
        loaded,
        TransformersPolicy(loaded.model, chat.stop_ids, max_tokens_per_microbatch=budget),
        TransformersLearner(
            loaded.model,
            update,
            pad=chat.end_of_turn,
            temperature=run.temperature,
            cut=run.cut,
            weight_decay=run.weight_decay,
            max_tokens_per_microbatch=budget,
            keep_reference=settings.algorithm.loss.kl > 0,
            critic=critic if isinstance(critic, SharedCritic) else None,
        ),
        critic,
        Renderer(chat, settings.environment.context),
        loaded.recommended.answer_tokens(settings.environment, settings.model),
    )

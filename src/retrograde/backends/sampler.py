"""Sampling with a transformers model in this process.

What contexts share is prefilled once and kept until the weights change; all answers of a call
are one batch in which a finished one makes place for the next.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel

from retrograde.backends.cached import CachedGeneration
from retrograde.backends.choice import Choice
from retrograde.backends.generation import Generation
from retrograde.backends.kv_trie import KeyValueTrie
from retrograde.backends.lean import Lean, lean_of
from retrograde.backends.light import LightGeneration
from retrograde.backends.route import Flat, Packed, scored, shares_prefixes
from retrograde.backends.weights import frozen_copy
from retrograde.policies.protocol import Answer, Ids, Sampling

FINE = 4
"""Bytes of a number that tells every optimizer step apart."""
KV_BUDGET_BYTES = 2 << 30
"""Keys and values of contexts that are kept between two changes of the weights."""


class TransformersPolicy:
    """A copy of a causal language model that acts under published weights."""

    def __init__(
        self,
        model: PreTrainedModel,
        stop_ids: frozenset[int],
        *,
        max_tokens_per_microbatch: int = 32768,
        kv_budget_bytes: int = KV_BUDGET_BYTES,
    ) -> None:
        """Copy a model.

        Args:
            model: any decoder-only model of transformers; later changes to what is trained
                of it are not seen, and what is not trained is shared with it.
            stop_ids: tokens that end an answer.
            max_tokens_per_microbatch: tokens of contexts and answers under way together.
            kv_budget_bytes: of keys and values that are kept from call to call.
        """
        self.version = 0
        self.model = frozen_copy(model)
        self.stop_ids = stop_ids
        self.max_tokens = max_tokens_per_microbatch
        self.device = next(self.model.parameters()).device
        shares = shares_prefixes(self.model)
        self.route = (
            Packed(self.model, min(stop_ids)) if shares else Flat(self.model, min(stop_ids))
        )
        self.store = KeyValueTrie(kv_budget_bytes, self.device) if shares else None
        """None for an architecture that attends in ways of its own: it keeps nothing."""
        self.lean = lean_of(self.model) if shares else None
        """None for a model whose arithmetic outweighs its operations."""

    def load(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Take published weights.

        Raises:
            ValueError: a later version arrived with the very weights that are already held. In
                bfloat16 that may be: the learner's float32 copies take steps it cannot show.
        """
        held = dict(self.model.named_parameters())
        told_apart = all(held[name].dtype.itemsize >= FINE for name in weights)
        if (
            told_apart
            and version > self.version
            and all(
                torch.equal(held[name], tensor.to(held[name])) for name, tensor in weights.items()
            )
        ):
            raise ValueError(
                f"version {version} of the weights equals version {self.version} bit by bit: "
                f"an optimizer step was published that changed nothing"
            )
        for name, tensor in weights.items():
            held[name].data.copy_(tensor)
        if self.lean is not None:
            self.lean = Lean(self.model, self.lean)
        self.forget()
        self.version = version

    def forget(self) -> None:
        """Drop what is kept of contexts: it is of other weights, or a call is to be repeatable."""
        if self.store is not None:
            self.store.clear()

    @torch.inference_mode()
    async def sample(self, contexts: Sequence[Ids], sampling: Sampling, seed: int) -> list[Answer]:
        """One answer to each context; equal contexts get independent answers."""
        self._check(contexts, sampling.max_new_tokens)
        choice = Choice.of(sampling, len(contexts), seed, self.device)
        most = self.max_tokens
        if self.store is None:
            generation = CachedGeneration(self.model, self.stop_ids, choice, max_tokens=most)
        elif self.lean is not None:
            generation = LightGeneration(
                self.lean, self.store, self.stop_ids, choice, max_tokens=most
            )
        else:
            generation = Generation(self.model, self.store, self.stop_ids, choice, max_tokens=most)
        return [
            Answer(
                tuple(draft.ids),
                tuple(draft.logps),
                draft.ids[-1] in self.stop_ids,
                tuple(draft.entropies),
            )
            for draft in generation.run(contexts)
        ]

    @torch.inference_mode()
    async def score(self, contexts: Sequence[Ids], actions: Sequence[Ids]) -> list[list[float]]:
        """log pi of each action's tokens at temperature 1, under the held version."""
        scores = scored(self.route, contexts, actions, 1.0, self.max_tokens)
        return [row.tolist() for row in scores]

    @property
    def max_context_tokens(self) -> int:
        """Positions of the model: a context and the answer to it have to fit."""
        return self.model.config.get_text_config().max_position_embeddings

    def _check(self, contexts: Sequence[Ids], room: int) -> None:
        limit = self.max_context_tokens
        for context in contexts:
            if not context:
                raise ValueError("a context of no tokens cannot be answered")
            if len(context) + room > limit:
                raise ValueError(
                    f"a context of {len(context)} tokens and an answer of up to {room} do not fit "
                    f"into the model's {limit} positions"
                )

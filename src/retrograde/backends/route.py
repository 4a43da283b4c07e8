"""How a model's log-probabilities are computed: on a trie of its rows, or row by row.

What rows share is run once wherever an architecture's attention can be led along a trie; what
cannot be is found out before the first pass, and run flat.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import torch
from torch import Tensor
from transformers import PreTrainedModel

from retrograde.backends.flat import action_logp_and_states
from retrograde.backends.lean import lean_of
from retrograde.backends.packed import packed_logp
from retrograde.backends.padding import microbatches
from retrograde.backends.trie_attention import NAME, attending
from retrograde.data.trie import distinct_tokens, packs
from retrograde.ops.cut import WHOLE, Cut
from retrograde.policies.protocol import Ids

KINDS = {"full_attention", "sliding_attention"}
"""Of layers that a trie can be led along."""
SAVES = 1.15
"""Flat tokens over distinct ones from which on a trie is worth its costs."""
TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-3, torch.float16: 0.1, torch.bfloat16: 0.5}
"""Nats by which the two ways may differ before they are taken for two functions."""


class Route(Protocol):
    """A way from rows to log-probabilities."""

    def fitting(self, contexts: Sequence[Ids], actions: Sequence[Ids]) -> "Route":
        """The way that fits these rows."""
        ...

    def parts(
        self, contexts: Sequence[Ids], actions: Sequence[Ids], max_tokens: int
    ) -> list[list[int]]:
        """Indices of the rows that go through the model together.

        Raises:
            ValueError: one row alone is longer than the budget.
        """
        ...

    def run(
        self,
        contexts: Sequence[Ids],
        actions: Sequence[Ids],
        temperature: float,
        *,
        cut: Cut = WHOLE,
        states: bool = False,
    ) -> tuple[list[Tensor], list[Tensor]]:
        """log pi of each action's tokens and, if asked for, the state before each."""
        ...

    def held(self) -> AbstractContextManager[None]:
        """Inside of it gradients may be taken: layers that are run again attend as they did."""
        ...


class Packed:
    """On a trie."""

    def __init__(self, model: PreTrainedModel, pad: int) -> None:
        """Bind a model and any valid token id."""
        self.model = model
        self.flat = Flat(model, pad)
        self.is_light = lean_of(model) is not None

    def fitting(self, contexts: Sequence[Ids], actions: Sequence[Ids]) -> "Route":
        """Row by row if next to nothing is shared: a trie has costs of its own."""
        inputs = [c + a[:-1] for c, a in zip(contexts, actions, strict=True)]
        saves = sum(map(len, inputs)) >= SAVES * distinct_tokens(inputs)
        return self if saves or not inputs else self.flat

    def parts(
        self, contexts: Sequence[Ids], actions: Sequence[Ids], max_tokens: int
    ) -> list[list[int]]:
        """By distinct tokens."""
        return packs([c + a[:-1] for c, a in zip(contexts, actions, strict=True)], max_tokens)

    def run(
        self,
        contexts: Sequence[Ids],
        actions: Sequence[Ids],
        temperature: float,
        *,
        cut: Cut = WHOLE,
        states: bool = False,
    ) -> tuple[list[Tensor], list[Tensor]]:
        """In one pass over distinct prefixes."""
        return packed_logp(
            self.model, contexts, actions, temperature, cut=cut, states=states, light=self.is_light
        )

    def held(self) -> AbstractContextManager[None]:
        """Attend on tries; nothing of a light model is run again."""
        return nullcontext() if self.is_light else attending(self.model, NAME)


class Flat:
    """Row by row, padded."""

    def __init__(self, model: PreTrainedModel, pad: int) -> None:
        """Bind a model and any valid token id."""
        self.model = model
        self.pad = pad

    def fitting(self, contexts: Sequence[Ids], actions: Sequence[Ids]) -> "Route":
        """This one."""
        del contexts, actions
        return self

    def parts(
        self, contexts: Sequence[Ids], actions: Sequence[Ids], max_tokens: int
    ) -> list[list[int]]:
        """By padded tokens."""
        lengths = [len(c) + len(a) for c, a in zip(contexts, actions, strict=True)]
        return microbatches(lengths, max_tokens)

    def run(
        self,
        contexts: Sequence[Ids],
        actions: Sequence[Ids],
        temperature: float,
        *,
        cut: Cut = WHOLE,
        states: bool = False,
    ) -> tuple[list[Tensor], list[Tensor]]:
        """In one padded pass."""
        return action_logp_and_states(
            self.model, contexts, actions, temperature, self.pad, cut=cut, states=states
        )

    def held(self) -> AbstractContextManager[None]:
        """As the model always does."""
        return nullcontext()


def route_of(model: PreTrainedModel, pad: int) -> Route:
    """On a trie where the architecture allows it."""
    return Packed(model, pad) if shares_prefixes(model) else Flat(model, pad)


@torch.inference_mode()
def shares_prefixes(model: PreTrainedModel) -> bool:
    """Whether an architecture's attention can be led along a trie; it is tried, on a small one."""
    config = model.config.get_text_config().to_dict()
    # Whether it takes its attention from transformers' registry has no public name.
    led = getattr(model, "_supports_attention_backend", False)
    if not led or not set(config.get("layer_types") or KINDS) <= KINDS:
        return False
    most = config["vocab_size"] - 1
    contexts = [tuple(min(i, most) for i in each) for each in ((1, 2, 3, 4), (1, 2, 5))]
    actions = [(2, 1), (1, 1)]
    try:
        on_trie, _ = packed_logp(model, contexts, actions, 1.0)
    except ValueError:  # it caps its scores, or has sinks
        return False
    flat, _ = action_logp_and_states(model, contexts, actions, 1.0, 0)
    apart = max(float((a - b).abs().max()) for a, b in zip(on_trie, flat, strict=True))
    return apart <= TOLERANCE[model.dtype]


def scored(
    route: Route,
    contexts: Sequence[Ids],
    actions: Sequence[Ids],
    temperature: float,
    max_tokens: int,
    *,
    cut: Cut = WHOLE,
) -> list[Tensor]:
    """log pi of each action's tokens at a temperature, row by row; no gradient unless enabled."""
    scores: list[Tensor | None] = [None] * len(contexts)
    route = route.fitting(contexts, actions)
    for part in route.parts(contexts, actions, max_tokens):
        chosen = [contexts[i] for i in part], [actions[i] for i in part]
        logp, _ = route.run(*chosen, temperature, cut=cut)
        for i, row in zip(part, logp, strict=True):
            scores[i] = row
    return [row for row in scores if row is not None]

"""Sampling with a transformers model in this process.

Equal contexts are prefilled once, and so is what all contexts of a batch begin with; the
key-value cache is handed to each answer. All answers of a batch advance together; those that
stop leave it.
"""

import copy
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel

from retrograde.backends.generation import Generation
from retrograde.backends.kv_trie import KeyValueTrie
from retrograde.backends.padding import microbatches, padded
from retrograde.ops.logprobs import selected_logp
from retrograde.policies.protocol import Answer, Ids, Sampling

FAINTEST = -1e4
"""Log-probabilities are cut off here for the entropy: 0 times minus infinity is no number."""
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
            model: any decoder-only model of transformers; later changes to it are not seen.
            stop_ids: tokens that end an answer.
            max_tokens_per_microbatch: tokens of contexts and answers under way together.
            kv_budget_bytes: of keys and values that are kept from call to call.
        """
        self.version = 0
        self.model = copy.deepcopy(model).eval().requires_grad_(requires_grad=False)
        self.stop_ids = stop_ids
        self.max_tokens = max_tokens_per_microbatch
        self.pad = min(stop_ids)
        self.device = next(self.model.parameters()).device
        self.store = KeyValueTrie(kv_budget_bytes)

    def load(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Take published weights.

        Raises:
            ValueError: a later version arrived with the very weights that are already held.
        """
        held = dict(self.model.named_parameters())
        if version > self.version and all(
            torch.equal(held[name], tensor.to(held[name])) for name, tensor in weights.items()
        ):
            raise ValueError(
                f"version {version} of the weights equals version {self.version} bit by bit: "
                f"an optimizer step was published that changed nothing"
            )
        for name, tensor in weights.items():
            held[name].data.copy_(tensor)
        self.store.clear()  # keys and values of other weights
        self.version = version

    @torch.inference_mode()
    async def sample(self, contexts: Sequence[Ids], sampling: Sampling, seed: int) -> list[Answer]:
        """One answer to each context; equal contexts get independent answers."""
        self._check(contexts, sampling.max_new_tokens)
        generator = torch.Generator(self.device).manual_seed(seed)
        generation = Generation(
            self.model,
            self.store,
            self.stop_ids,
            lambda logits_BV: _choose(logits_BV, sampling.temperature, generator),
            max_new_tokens=sampling.max_new_tokens,
            max_tokens=self.max_tokens,
        )
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
        scores = logprobs(self.model, contexts, actions, 1.0, self.max_tokens, self.pad)
        return [row.tolist() for row in scores]

    def _check(self, contexts: Sequence[Ids], room: int) -> None:
        limit = self.model.config.max_position_embeddings
        for context in contexts:
            if not context:
                raise ValueError("a context of no tokens cannot be answered")
            if len(context) + room > limit:
                raise ValueError(
                    f"a context of {len(context)} tokens and an answer of up to {room} do not fit "
                    f"into the model's {limit} positions"
                )


def _choose(
    logits_BV: Tensor, temperature: float, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Draw a token for each row, or take the likeliest at temperature 0.

    Returns:
        Token, its log-probability, and the entropy of what it was drawn from, in nats. At
        temperature 0 the last two are those of the unscaled distribution.
    """
    logp_BV = (logits_BV.float() / (temperature or 1.0)).log_softmax(-1)
    probs_BV = logp_BV.exp()
    if temperature == 0:
        token_B = logits_BV.argmax(-1)
    else:
        token_B = torch.multinomial(probs_BV, 1, generator=generator).squeeze(1)
    entropy_B = -(probs_BV * logp_BV.clamp(min=FAINTEST)).sum(-1)
    return token_B, selected_logp(logits_BV, token_B, temperature or 1.0), entropy_B


def logprobs(
    model: PreTrainedModel,
    contexts: Sequence[Ids],
    actions: Sequence[Ids],
    temperature: float,
    max_tokens: int,
    pad: int,
) -> list[Tensor]:
    """log pi of each action's tokens at a temperature, row by row; no gradient unless enabled."""
    lengths = [len(c) + len(a) for c, a in zip(contexts, actions, strict=True)]
    scores: list[Tensor | None] = [None] * len(contexts)
    for part in microbatches(lengths, max_tokens):
        logp = action_logp(
            model, [contexts[i] for i in part], [actions[i] for i in part], temperature, pad
        )
        for i, row in zip(part, logp, strict=True):
            scores[i] = row
    return [row for row in scores if row is not None]


def action_logp(
    model: PreTrainedModel,
    contexts: Sequence[Ids],
    actions: Sequence[Ids],
    temperature: float,
    pad: int,
) -> list[Tensor]:
    """log pi of each action's tokens, one forward pass, one tensor a row."""
    return action_logp_and_states(model, contexts, actions, temperature, pad)[0]


def action_logp_and_states(
    model: PreTrainedModel,
    contexts: Sequence[Ids],
    actions: Sequence[Ids],
    temperature: float,
    pad: int,
    *,
    states: bool = False,
) -> tuple[list[Tensor], list[Tensor]]:
    """log pi of each action's tokens and what the transformer makes of the state before each.

    One forward pass, one tensor a row; no states unless asked for.
    """
    device = next(model.parameters()).device
    batch = padded(contexts, actions, pad, device)
    longest = max(map(len, actions))
    said = model(
        input_ids=batch.ids_BN,
        attention_mask=batch.mask_BN,
        position_ids=batch.positions_BN,
        use_cache=False,
        logits_to_keep=longest,
        output_hidden_states=states,
    )
    # One flat gather over true action tokens: padding never meets the softmax.
    at = [(b, t) for b, action in enumerate(actions) for t in range(len(action))]
    row_T, column_T = torch.tensor(at, device=device).T
    chosen_T = torch.tensor([token for action in actions for token in action], device=device)
    logp_T = selected_logp(said.logits[row_T, column_T], chosen_T, temperature)
    sizes = [len(action) for action in actions]
    if not states:
        return list(logp_T.split(sizes)), []
    before_BAH = said.hidden_states[-1][:, -longest:]
    return list(logp_T.split(sizes)), list(before_BAH[row_T, column_T].split(sizes))

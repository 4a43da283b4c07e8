"""Sampling with a transformers model in this process.

Equal contexts are prefilled once, and so is what all contexts of a batch begin with; the
key-value cache is handed to each answer. All answers of a batch advance together; those that
stop leave it.
"""

import inspect
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from retrograde.backends.padding import microbatches, padded
from retrograde.backends.weights import frozen_copy
from retrograde.data.tree import shared_length
from retrograde.ops.logprobs import selected_logp
from retrograde.policies.protocol import Answer, Ids, Sampling

FAINTEST = -1e4
"""Log-probabilities are cut off here for the entropy: 0 times minus infinity is no number."""
FINE = 4
"""Bytes of a number that tells every optimizer step apart."""
WORTHWHILE = 32
"""Shared leading tokens below which a pass of their own costs more than it saves."""


class TransformersPolicy:
    """A copy of a causal language model that acts under published weights."""

    def __init__(
        self,
        model: PreTrainedModel,
        stop_ids: frozenset[int],
        *,
        max_tokens_per_microbatch: int = 32768,
    ) -> None:
        """Copy a model.

        Args:
            model: any decoder-only model of transformers; later changes to what is trained
                of it are not seen, and what is not trained is shared with it.
            stop_ids: tokens that end an answer.
            max_tokens_per_microbatch: padded tokens in one forward pass.
        """
        self.version = 0
        self.model = frozen_copy(model)
        self.stop_ids = stop_ids
        self.max_tokens = max_tokens_per_microbatch
        self.pad = min(stop_ids)
        self.device = next(self.model.parameters()).device
        # transformers renamed the argument in the course of version 5.
        takes = inspect.signature(self.model.forward).parameters
        self._cache_name = "cache" if "cache" in takes else "past_key_values"
        self._text = self.model.config.get_text_config()
        kinds = set(self._text.to_dict().get("layer_types") or ["full_attention"])
        self._slides = kinds != {"full_attention"}

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
        self.version = version

    @torch.inference_mode()
    async def sample(self, contexts: Sequence[Ids], sampling: Sampling, seed: int) -> list[Answer]:
        """One answer to each context; equal contexts get independent answers."""
        self._check(contexts, sampling.max_new_tokens)
        distinct = {context: i for i, context in enumerate(dict.fromkeys(contexts))}
        members: list[list[int]] = [[] for _ in distinct]
        for i, context in enumerate(contexts):
            members[distinct[context]].append(i)
        unique = list(distinct)
        generator = torch.Generator(self.device).manual_seed(seed)
        sizes = [len(context) + sampling.max_new_tokens for context in unique]
        answers: list[Answer | None] = [None] * len(contexts)
        for part in microbatches(sizes, max(self.max_tokens, *sizes)):
            owners = [i for u in part for i in members[u]]
            repeats = [len(members[u]) for u in part]
            drawn = self._draw([unique[u] for u in part], repeats, sampling, generator)
            for owner, answer in zip(owners, drawn, strict=True):
                answers[owner] = answer
        return [answer for answer in answers if answer is not None]

    @torch.inference_mode()
    async def score(self, contexts: Sequence[Ids], actions: Sequence[Ids]) -> list[list[float]]:
        """log pi of each action's tokens at temperature 1, under the held version."""
        scores = logprobs(self.model, contexts, actions, 1.0, self.max_tokens, self.pad)
        return [row.tolist() for row in scores]

    @property
    def max_context_tokens(self) -> int:
        """Positions of the model: a context and the answer to it have to fit."""
        return self._text.max_position_embeddings

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

    def _draw(
        self,
        contexts: list[Ids],
        repeats: list[int],
        sampling: Sampling,
        generator: torch.Generator,
    ) -> list[Answer]:
        cache = DynamicCache(config=self.model.config)
        common = self._common(contexts)
        if common:
            self._prefill(contexts[0][:common], cache)
            cache.batch_repeat_interleave(len(contexts))
        batch = padded([context[common:] for context in contexts], None, self.pad, self.device)
        mask_BN = torch.cat([batch.mask_BN.new_ones(len(contexts), common), batch.mask_BN], 1)
        positions_BN = batch.positions_BN + common
        out = self.model(
            input_ids=batch.ids_BN,
            attention_mask=mask_BN,
            position_ids=positions_BN,
            use_cache=True,
            logits_to_keep=1,
            **{self._cache_name: cache},
        )
        spread = torch.tensor(repeats, device=self.device)
        rows = torch.arange(len(contexts), device=self.device).repeat_interleave(spread)
        logits_BV = out.logits[:, -1][rows]
        mask_BN = mask_BN[rows]
        position_B = positions_BN[rows, -1]
        if len(rows) != len(contexts):
            cache.batch_select_indices(rows)
        return self._decode(logits_BV, mask_BN, position_B, cache, sampling, generator)

    def _common(self, contexts: Sequence[Ids]) -> int:
        """Leading tokens that all contexts share and that are worth a pass of their own.

        Contexts of unequal length are then padded behind what they share. A sliding window
        counts such padding as distance, so a model that has one runs every context whole.
        """
        if len(contexts) == 1 or self._slides:
            return 0
        shortest, longest = min(contexts), max(contexts)  # in lexical order, so the most different
        shared = min(shared_length(shortest, longest), min(map(len, contexts)) - 1)
        return shared if shared >= WORTHWHILE else 0

    def _prefill(self, ids: Ids, cache: DynamicCache) -> None:
        self.model(
            input_ids=torch.tensor([ids], device=self.device),
            use_cache=True,
            logits_to_keep=1,
            **{self._cache_name: cache},
        )

    def _decode(
        self,
        logits_BV: Tensor,
        mask_BN: Tensor,
        position_B: Tensor,
        cache: DynamicCache,
        sampling: Sampling,
        generator: torch.Generator,
    ) -> list[Answer]:
        count = len(logits_BV)
        ids: list[list[int]] = [[] for _ in range(count)]
        logps: list[list[float]] = [[] for _ in range(count)]
        entropies: list[list[float]] = [[] for _ in range(count)]
        stops = torch.tensor(sorted(self.stop_ids), device=self.device)
        live = torch.arange(count, device=self.device)
        for step in range(sampling.max_new_tokens):
            token_B, logp_B, entropy_B = _choose(logits_BV, sampling.temperature, generator)
            drawn = (each.tolist() for each in (live, token_B, logp_B, entropy_B))
            for row, token, logp, entropy in zip(*drawn, strict=True):
                ids[row].append(token)
                logps[row].append(logp)
                entropies[row].append(entropy)
            going_B = ~torch.isin(token_B, stops)
            if step == sampling.max_new_tokens - 1 or not going_B.any():
                break
            if not going_B.all():
                kept = going_B.nonzero().squeeze(1)
                cache.batch_select_indices(kept)
                live, token_B = live[kept], token_B[kept]
                mask_BN, position_B = mask_BN[kept], position_B[kept]
            position_B = position_B + 1
            mask_BN = torch.cat([mask_BN, mask_BN.new_ones(len(mask_BN), 1)], dim=1)
            logits_BV = self.model(
                input_ids=token_B[:, None],
                attention_mask=mask_BN,
                position_ids=position_B[:, None],
                use_cache=True,
                **{self._cache_name: cache},
            ).logits[:, -1]
        return [
            Answer(tuple(row), tuple(logp), row[-1] in self.stop_ids, tuple(entropy))
            for row, logp, entropy in zip(ids, logps, entropies, strict=True)
        ]


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

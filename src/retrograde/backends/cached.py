"""Answers by transformers' own key-value cache: for any decoder-only model.

Equal contexts are prefilled once, and so is what all contexts of a batch begin with; the cache
is handed to each answer and forgotten afterwards. All answers of a batch advance together; those
that stop leave it. It is the way of architectures whose attention cannot be led along a trie.
"""

import inspect
from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from retrograde.backends.choice import Choice
from retrograde.backends.draft import Draft
from retrograde.backends.padding import microbatches, padded
from retrograde.data.tree import shared_length
from retrograde.policies.protocol import Ids

WORTHWHILE = 32
"""Shared leading tokens below which a pass of their own costs more than it saves."""


class CachedGeneration:
    """One call: contexts in, finished drafts out."""

    def __init__(
        self,
        model: PreTrainedModel,
        stop_ids: frozenset[int],
        choose: Choice,
        *,
        max_tokens: int,
    ) -> None:
        """Bind the parts.

        Args:
            model: in evaluation mode.
            stop_ids: tokens that end an answer; the smallest pads.
            choose: draws tokens.
            max_tokens: padded tokens in one forward pass; one context always is.
        """
        self.model = model
        self.choose = choose
        self.room = choose.sampling.max_new_tokens
        self.max_tokens = max_tokens
        self.pad = min(stop_ids)
        self.device = next(model.parameters()).device
        self.stops = torch.tensor(sorted(stop_ids), device=self.device)
        # transformers renamed the argument in the course of version 5.
        takes = inspect.signature(model.forward).parameters
        self._cache_name = "cache" if "cache" in takes else "past_key_values"
        kinds = set(model.config.get_text_config().to_dict().get("layer_types") or [])
        self._slides = bool(kinds - {"full_attention"})

    def run(self, contexts: Sequence[Ids]) -> list[Draft]:
        """Answer each context, in the order given."""
        members: dict[Ids, list[Draft]] = {}
        for owner, context in enumerate(contexts):
            members.setdefault(context, []).append(Draft(owner, context))
        unique = list(members)
        sizes = [len(context) + self.room for context in unique]
        done: list[Draft] = []
        for part in microbatches(sizes, max(self.max_tokens, *sizes)):
            drafts = [members[unique[u]] for u in part]
            self._draw([unique[u] for u in part], drafts)
            done += [draft for each in drafts for draft in each]
        return sorted(done, key=lambda draft: draft.owner)

    def _draw(self, contexts: list[Ids], drafts: list[list[Draft]]) -> None:
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
        spread = torch.tensor([len(each) for each in drafts], device=self.device)
        rows = torch.arange(len(contexts), device=self.device).repeat_interleave(spread)
        if len(rows) != len(contexts):
            cache.batch_select_indices(rows)
        live = [draft for each in drafts for draft in each]
        self._decode(out.logits[:, -1][rows], mask_BN[rows], positions_BN[rows, -1], cache, live)

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
        live: list[Draft],
    ) -> None:
        while True:
            owner_B = torch.tensor([draft.owner for draft in live], device=self.device)
            length_B = torch.full_like(owner_B, len(live[0].ids))
            drawn_B = self.choose(logits_BV, owner_B, length_B)
            token_B = drawn_B.token_B
            drawn = (each.tolist() for each in drawn_B)
            stopped_B = torch.isin(token_B, self.stops)
            for draft, token, logp, entropy in zip(live, *drawn, strict=True):
                draft.say(token, logp, entropy)
            if len(live[0].ids) == self.room or stopped_B.all():
                return
            if stopped_B.any():
                kept = (~stopped_B).nonzero().squeeze(1)
                cache.batch_select_indices(kept)
                live, token_B = [live[row] for row in kept.tolist()], token_B[kept]
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

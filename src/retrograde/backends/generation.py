"""Answers to many contexts at once; when some are finished, others take their place."""

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel

from retrograde.backends.choice import Choice
from retrograde.backends.decode import NAME, Step, in_order, planned
from retrograde.backends.draft import Draft
from retrograde.backends.kv_trie import Ids, KeyValueTrie
from retrograde.backends.reading import read, running
from retrograde.backends.trie_attention import attending

IDLE = 0.25
"""Share of finished answers at which a batch is put together anew."""


class Generation:
    """One call: contexts in, finished drafts out."""

    def __init__(
        self,
        model: PreTrainedModel,
        store: KeyValueTrie,
        stop_ids: frozenset[int],
        choose: Choice,
        *,
        max_tokens: int,
    ) -> None:
        """Bind the parts.

        Args:
            model: in evaluation mode.
            store: of the model's weights of now.
            stop_ids: tokens that end an answer.
            choose: draws tokens.
            max_tokens: contexts and answers that are under way together; one always is.
        """
        self.model = model
        self.store = store
        self.choose = choose
        self.room = choose.sampling.max_new_tokens
        self.max_tokens = max_tokens
        self.device = next(model.parameters()).device
        self.stops = torch.tensor(sorted(stop_ids), device=self.device)
        self.drafts: list[Draft] = []
        self.step: Step | None = None

    def run(self, contexts: Sequence[Ids]) -> list[Draft]:
        """Answer each context, in the order given."""
        waiting = [Draft(i, context) for i, context in enumerate(contexts)]
        waiting.sort(key=lambda draft: draft.context, reverse=True)
        done: list[Draft] = []
        with attending(self.model, NAME):
            while waiting or self.drafts:
                self._gather(waiting)
                self._write()
                done += self._settle()
        return sorted(done, key=lambda draft: draft.owner)

    def _gather(self, waiting: list[Draft]) -> None:
        """Let as many join as there is room for, and plan who sees what."""
        before = {id(draft): row for row, draft in enumerate(self.drafts)}
        held = sum(len(d.context) + self.room for d in self.drafts)
        while waiting and (
            not self.drafts or held + len(waiting[-1].context) + self.room <= self.max_tokens
        ):
            self.drafts.append(waiting.pop())
            held += len(self.drafts[-1].context) + self.room
        prefixes = [draft.context[:-1] for draft in self.drafts]
        self.store.begin(prefixes)
        chains = read(running(self.model), self.store, prefixes)
        order = in_order(chains, self.store)
        self.drafts = [self.drafts[i] for i in order]
        products, columns, depth = planned([chains[i] for i in order], self.device)
        length_B = torch.tensor([d.written for d in self.drafts], device=self.device)
        position = [len(d.context) - 1 + d.written for d in self.drafts]
        tails = self._carried([before.get(id(draft), -1) for draft in self.drafts])
        self.step = Step(
            self.store, products, columns, depth,
            torch.arange(len(self.drafts), device=self.device), length_B,
            torch.tensor(position, device=self.device), tails, self.room + 1,
        )  # fmt: skip

    def _carried(self, rows: Sequence[int]) -> dict[int, tuple[Tensor, Tensor]]:
        """Keys and values of answers that go on; those of new ones hold nothing yet."""
        if self.step is None or all(row < 0 for row in rows):
            return {}
        row_B = torch.tensor([max(row, 0) for row in rows], device=self.device)
        return {
            layer: (keys[row_B], values[row_B]) for layer, (keys, values) in self.step.tails.items()
        }

    def _write(self) -> None:
        """Token after token, until enough answers are finished."""
        step = self.step
        if step is None:
            raise AssertionError("answers are gathered before they are written")
        said = [draft.ids[-1] if draft.ids else draft.context[-1] for draft in self.drafts]
        token_B = torch.tensor(said, device=self.device)
        owner_B = torch.tensor([draft.owner for draft in self.drafts], device=self.device)
        going_B = torch.ones_like(token_B, dtype=torch.bool)
        going, allowed = len(self.drafts), (1 - IDLE) * len(self.drafts)
        while going > allowed:
            logits_BV = self.model(
                input_ids=token_B[:, None],
                position_ids=step.position_B[:, None],
                use_cache=False,
                step=step,
            ).logits[:, -1]
            # Answers that are over already draw again, and are not heard.
            drawn_B = self.choose(logits_BV, owner_B, step.length_B.clamp(max=self.room - 1))
            token_B = drawn_B.token_B
            stopped = torch.isin(token_B, self.stops).tolist()
            drawn = (each.tolist() for each in drawn_B)
            for draft, stop, token, logp, entropy in zip(self.drafts, stopped, *drawn, strict=True):
                if draft.is_over:
                    continue
                draft.say(token, logp, entropy)
                draft.is_over = stop or len(draft.ids) == self.room
            # Also of those that ended just now: what was written for them is kept.
            step.length_B = step.length_B + going_B
            step.position_B = step.position_B + going_B
            over = [draft.is_over for draft in self.drafts]
            going = len(over) - sum(over)
            going_B = ~torch.tensor(over, device=self.device)

    def _settle(self) -> list[Draft]:
        """Take finished answers out; what was computed for them is kept for what follows them."""
        done = [draft for draft in self.drafts if draft.is_over]
        rows, tails, places = [], [], []
        for row, draft in enumerate(self.drafts):
            if not draft.is_over:
                continue
            first = len(draft.context) - 1
            known = draft.context + tuple(draft.ids[:-1])
            for branch in self.store.chain(known):
                if branch.is_read:
                    continue
                branch.is_read = True
                rows += [row] * len(branch.ids)
                tails += range(branch.depth - first, branch.depth - first + len(branch.ids))
                places += range(branch.start, branch.start + len(branch.ids))
        if places and self.step is not None:
            row, tail, place = (
                torch.tensor(each, device=self.device) for each in (rows, tails, places)
            )
            for layer, (keys, values) in self.step.tails.items():
                pool = self.store.reserve(layer, keys[0])
                for to, own in zip(pool, (keys, values), strict=True):
                    to[:, place] = own[row, :, tail].transpose(0, 1)
            self.store.measure()
        self._keep([row for row, draft in enumerate(self.drafts) if not draft.is_over])
        return done

    def _keep(self, rows: Sequence[int]) -> None:
        self.drafts = [self.drafts[row] for row in rows]
        if self.step is not None:
            kept = torch.tensor(rows, dtype=torch.long, device=self.device)
            self.step.tails = {
                layer: (keys[kept], values[kept])
                for layer, (keys, values) in self.step.tails.items()
            }

"""Answers of a light model: few and large operations, since each costs more than it computes.

What contexts share is read once, as for any model. For writing, each answer gets a copy of its
context's keys and values in one rectangle, aligned at the right, so that the next token of all
lies in the same column and attention is two products.

Shapes: B answers, H key heads, W columns, D of a head.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from retrograde.backends.choice import Choice
from retrograde.backends.draft import Draft
from retrograde.backends.kv_trie import Ids, KeyValueTrie
from retrograde.backends.lean import Lean
from retrograde.backends.light_reading import read_levels

IDLE = 0.25
"""Share of finished answers at which the rest is put together anew."""


class Rectangle:
    """Keys and values of answers under way."""

    def __init__(self, store: KeyValueTrie, places: Sequence[list[int]], room: int) -> None:
        """Copy keys and values out of a store; answers may grow by `room` tokens."""
        device = store.device
        self.column = max(map(len, places))
        """The next that is written to."""
        self.columns = self.column + room
        missing = [self.column - len(each) for each in places]
        place_BW = torch.tensor(
            [[0] * n + each for n, each in zip(missing, places, strict=True)], device=device
        )
        self.hidden: Tensor | None = None
        """Minus infinity at padding, B x 1 x 1 x W."""
        if any(missing):
            columns = torch.arange(self.columns, device=device)
            padding_BW = columns < torch.tensor(missing, device=device)[:, None]
            self.hidden = torch.zeros(padding_BW.shape, device=device)
            self.hidden = self.hidden.masked_fill_(padding_BW, -torch.inf)[:, None, None]
        self.held: dict[int, tuple[Tensor, Tensor]] = {}
        for layer, pool in store.pools.items():
            wide = [each.new_empty(len(places), len(each), self.columns, each.shape[2])
                    for each in pool]  # fmt: skip
            for to, each in zip(wide, pool, strict=True):
                to[:, :, : self.column] = each[:, place_BW].transpose(0, 1)
            self.held[layer] = wide[0], wide[1]

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """One new token of each answer: it is written down, and sees all before it."""
        if layer not in self.held:  # every context is a single token, which is run now
            wide = (*key.shape[:2], self.columns, key.shape[3])
            self.held[layer] = key.new_empty(wide), key.new_empty(wide)
        keys, values = self.held[layer]
        end = self.column + 1
        keys[:, :, self.column], values[:, :, self.column] = key[:, :, 0], value[:, :, 0]
        rows, heads, _, width = key.shape
        q_BHGD = query.reshape(rows, heads, -1, width) * width**-0.5
        score = q_BHGD @ keys[:, :, :end].transpose(-1, -2)
        if self.hidden is not None:
            score += self.hidden[..., :end]
        return (score.softmax(-1) @ values[:, :, :end]).view(rows, 1, -1, width)

    def keep(self, rows: Sequence[int]) -> None:
        """Drop all other rows."""
        kept = torch.tensor(rows, dtype=torch.long)
        end = self.column
        for layer, pair in self.held.items():
            room = pair[0].shape[2]
            smaller = [each.new_empty(len(rows), each.shape[1], room, each.shape[3])
                       for each in pair]  # fmt: skip
            for to, each in zip(smaller, pair, strict=True):
                to[:, :, :end] = each[:, :, :end].index_select(0, kept.to(each.device))
            self.held[layer] = smaller[0], smaller[1]
        if self.hidden is not None:
            self.hidden = self.hidden[kept.to(self.hidden.device)]


class LightGeneration:
    """One call: contexts in, finished drafts out."""

    def __init__(
        self,
        lean: Lean,
        store: KeyValueTrie,
        stop_ids: frozenset[int],
        choose: Choice,
        *,
        max_tokens: int,
    ) -> None:
        """Bind the parts.

        Args:
            lean: the weights of now.
            store: of the same weights.
            stop_ids: tokens that end an answer.
            choose: draws tokens.
            max_tokens: read in one forward pass; a stretch that is longer is one of its own.
        """
        self.lean = lean
        self.store = store
        self.choose = choose
        self.room = choose.sampling.max_new_tokens
        self.max_tokens = max_tokens
        self.stops = stop_ids
        self.device = lean.embedding.device
        self.drafts: list[Draft] = []

    def run(self, contexts: Sequence[Ids]) -> list[Draft]:
        """Answer each context, in the order given."""
        waiting = [Draft(i, context) for i, context in enumerate(contexts)]
        waiting.sort(key=lambda draft: draft.context, reverse=True)
        done: list[Draft] = []
        while waiting or self.drafts:
            if self._join(waiting):
                known = [draft.known for draft in self.drafts]
                self.store.begin(known)
                places = read_levels(self.lean, self.store, known, self.max_tokens)
                self.joined = [len(each) for each in known]
                self.rectangle = Rectangle(self.store, places, self.room)
                self.begun = self.rectangle.column
            self._write()
            over = [draft.is_over for draft in self.drafts]
            # Those that go on are written down as well if they are to move.
            self._settle([row for row, is_over in enumerate(over) if is_over or waiting])
            done += [draft for draft in self.drafts if draft.is_over]
            rows = [row for row, is_over in enumerate(over) if not is_over]
            self.drafts = [self.drafts[row] for row in rows]
            self.joined = [self.joined[row] for row in rows]
            if rows and not waiting:
                self.rectangle.keep(rows)
        return sorted(done, key=lambda draft: draft.owner)

    def _join(self, waiting: list[Draft]) -> bool:
        """Let as many join as there is memory for; whether any did."""
        before = len(self.drafts)
        most = self.store.budget_bytes // self.lean.token_bytes
        widest = max((len(draft.context) for draft in self.drafts), default=0)
        while waiting:
            widest = max(widest, len(waiting[-1].context))
            if self.drafts and (len(self.drafts) + 1) * (widest + self.room) > most:
                break
            self.drafts.append(waiting.pop())
        return len(self.drafts) > before

    def _write(self) -> None:
        """Token after token, until enough answers are finished."""
        drafts = self.drafts
        owner_B = torch.tensor([draft.owner for draft in drafts], device=self.device)
        length_B = torch.tensor([len(draft.ids) for draft in drafts], device=self.device)
        position_B = length_B + torch.tensor(
            [len(draft.context) - 1 for draft in drafts], device=self.device
        )
        said = [draft.ids[-1] if draft.ids else draft.context[-1] for draft in drafts]
        token_B = torch.tensor(said, device=self.device)
        going, allowed = len(drafts), (1 - IDLE) * len(drafts)
        figures: list[Tensor] = []
        ended = [0] * len(drafts)
        """Steps in which each said something."""
        while going > allowed:
            hidden = self.lean(token_B[:, None], position_B[:, None], self.rectangle.attend)
            self.rectangle.column += 1
            # Answers that are over already draw again, and are not heard.
            drawn = self.choose(
                self.lean.logits(hidden[:, -1]), owner_B, length_B.clamp(max=self.room - 1)
            )
            token_B, length_B, position_B = drawn.token_B, length_B + 1, position_B + 1
            figures.append(torch.stack([drawn.logp_B, drawn.entropy_B]))
            for row, (draft, token) in enumerate(zip(drafts, token_B.tolist(), strict=True)):
                if not draft.is_over:
                    draft.ids.append(token)
                    ended[row] += 1
                    if token in self.stops or len(draft.ids) == self.room:
                        draft.is_over = True
                        going -= 1
        logp_BS, entropy_BS = torch.stack(figures, -1).tolist()
        for draft, steps, logps, entropies in zip(drafts, ended, logp_BS, entropy_BS, strict=True):
            draft.logps += logps[:steps]
            draft.entropies += entropies[:steps]

    def _settle(self, rows: Sequence[int]) -> None:
        """Keep what was computed for these rows, for what follows them."""
        from_row: list[int] = []
        from_column: list[int] = []
        places: list[int] = []
        for row in rows:
            draft, joined = self.drafts[row], self.joined[row]
            for branch in self.store.chain(draft.known):
                if not branch.is_read:
                    branch.is_read = True
                    long, column = len(branch.ids), self.begun + branch.depth - joined
                    from_row += [row] * long
                    from_column += range(column, column + long)
                    places += range(branch.start, branch.start + long)
        if not places:
            return
        row, column, place = (
            torch.tensor(each, device=self.device) for each in (from_row, from_column, places)
        )
        for layer, (keys, values) in self.rectangle.held.items():
            pool = self.store.reserve(layer, keys[0])
            for to, own in zip(pool, (keys, values), strict=True):
                to[:, place] = own[row, :, column].transpose(0, 1)
        self.store.measure()

"""Answers of a light model: few and large operations, since each costs more than it computes.

What contexts share is read once, as for any model, and so is what answers share: as long as several
say the same behind the same context they are one row, which forks where their luck parts them. Each
row gets a copy of its context's keys and values in one rectangle, aligned at the right, so that the
next token of all lies in the same column and attention is two products.

Shapes: B answers, R rows, H key heads, W columns, D of a head, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from retrograde.backends.choice import Choice, figures
from retrograde.backends.draft import Draft
from retrograde.backends.kv_trie import Ids, KeyValueTrie
from retrograde.backends.lean import Lean
from retrograde.backends.light_reading import read_levels

IDLE = 0.25
"""Share of rows that nobody goes on in at which the rest is put together anew."""
SCORES = 1 << 23
"""Scores that are kept until what was drawn is measured."""


@dataclass
class Written(Draft):
    """An answer under way."""

    row: int = 0
    """Of the rectangle; what it said lies there."""
    joined: int = 0
    """Tokens it had, its context's counted, when the rectangle was made."""


class Rectangle:
    """Keys and values of rows under way."""

    def __init__(
        self, store: KeyValueTrie, places: Sequence[list[int]], room: int, most: int
    ) -> None:
        """Copy keys and values out of a store.

        Args:
            store: has them all.
            places: where those of each row lie.
            room: by how many tokens rows may grow.
            most: rows that there may come to be.
        """
        self.device = store.device
        self.rows = len(places)
        self.begun = self.column = max(map(len, places))
        """The next column that is written to."""
        self.columns, self.most = self.column + room, most
        missing = [self.column - len(each) for each in places]
        place_RW = torch.tensor(
            [[0] * n + each for n, each in zip(missing, places, strict=True)], device=self.device
        )
        self.hidden: Tensor | None = None
        """Minus infinity at padding, R x 1 x 1 x W."""
        if any(missing):
            columns = torch.arange(self.columns, device=self.device)
            padding_RW = columns < torch.tensor(missing, device=self.device)[:, None]
            self.hidden = torch.zeros(most, 1, 1, self.columns, device=self.device)
            self.hidden[: self.rows, 0, 0].masked_fill_(padding_RW, -torch.inf)
        self.held: dict[int, tuple[Tensor, Tensor]] = {}
        """Keys, R x H x D x W, and values, R x H x W x D, of each layer."""
        for layer, pool in store.pools.items():
            key, value = (each[:, place_RW].transpose(0, 1) for each in pool)
            keys, values = self._room(layer, key)
            keys[: self.rows, ..., : self.column] = key.transpose(-1, -2)
            values[: self.rows, :, : self.column] = value

    def _room(self, layer: int, like: Tensor) -> tuple[Tensor, Tensor]:
        if layer not in self.held:
            heads, width = like.shape[1], like.shape[-1]
            self.held[layer] = (
                like.new_empty(self.most, heads, width, self.columns),
                like.new_empty(self.most, heads, self.columns, width),
            )
        return self.held[layer]

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """One new token of each row: it is written down, and sees all before it."""
        keys, values = self._room(layer, key)
        rows, end = self.rows, self.column + 1
        keys[:rows, ..., self.column] = key[:, :, 0]
        values[:rows, :, self.column] = value[:, :, 0]
        width = query.shape[-1]
        score = query.reshape(rows, key.shape[1], -1, width) @ keys[:rows, ..., :end]
        if self.hidden is not None:
            score += self.hidden[:rows, ..., :end]
        return (score.softmax(-1) @ values[:rows, :, :end]).view(rows, 1, -1, width)

    def fork(self, rows: Sequence[int]) -> None:
        """Put a copy of each of these rows behind the others."""
        self._copy(rows, self.rows)
        self.rows += len(rows)

    def keep(self, rows: Sequence[int]) -> None:
        """Drop all other rows."""
        self._copy(rows, 0)
        self.rows = len(rows)

    def _copy(self, rows: Sequence[int], first: int) -> None:
        row_N, last = torch.tensor(rows, device=self.device), first + len(rows)
        for keys, values in self.held.values():
            keys[first:last, ..., : self.column] = keys[..., : self.column].index_select(0, row_N)
            values[first:last, :, : self.column] = values[:, :, : self.column].index_select(
                0, row_N
            )
        if self.hidden is not None:
            self.hidden[first:last] = self.hidden.index_select(0, row_N)


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
        self.drafts: list[Written] = []

    def run(self, contexts: Sequence[Ids]) -> list[Draft]:
        """Answer each context, in the order given."""
        waiting = [Written(i, context) for i, context in enumerate(contexts)]
        self.lean.reach(self.room + max(map(len, contexts), default=0))
        waiting.sort(key=lambda draft: draft.context, reverse=True)
        done: list[Draft] = []
        while waiting or self.drafts:
            if self._join(waiting):
                self._begin()
            self._write()
            # Those that go on are written down as well if they are to move.
            self._settle([draft for draft in self.drafts if draft.is_over or waiting])
            done += [draft for draft in self.drafts if draft.is_over]
            self.drafts = [draft for draft in self.drafts if not draft.is_over]
            self._close_up()
        return sorted(done, key=lambda draft: draft.owner)

    def _join(self, waiting: list[Written]) -> bool:
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

    def _begin(self) -> None:
        """Make a rectangle of all drafts, a row for those that came to the same."""
        row_of: dict[Ids, int] = {}
        for draft in self.drafts:
            draft.row = row_of.setdefault((*draft.known, draft.last), len(row_of))
            draft.joined = len(draft.known)
        known = [ids[:-1] for ids in row_of]
        self.store.begin(known)
        places = read_levels(self.lean, self.store, known, self.max_tokens)
        self.rectangle = Rectangle(self.store, places, self.room, len(self.drafts))

    def _write(self) -> None:
        """Token after token, until enough rows are finished."""
        going, rectangle = self.drafts, self.rectangle
        token_R, depth_R = [0] * rectangle.rows, [0] * rectangle.rows
        for draft in going:
            token_R[draft.row], depth_R[draft.row] = draft.last, len(draft.known)
        used, measured = rectangle.rows, Measured()
        while going and used >= (1 - IDLE) * rectangle.rows and measured.held < SCORES:
            ids_R, position_R = torch.tensor([token_R, depth_R], device=self.device)
            hidden = self.lean(ids_R[:, None], position_R[:, None], rectangle.attend)
            rectangle.column += 1
            scores_RV = self.choose.scores(self.lean.logits(hidden[:, -1]))
            asking = [(draft.row, draft.owner, len(draft.ids)) for draft in going]
            token_B = self.choose.tokens(
                scores_RV, *torch.tensor(asking, device=self.device).T
            ).tolist()
            measured.add(scores_RV, going, token_B)
            going = self._said(going, token_B)
            depth_R = [depth + 1 for depth in depth_R]
            used = self._part(going, token_R, depth_R)
        measured.tell()

    def _said(self, going: Sequence[Written], tokens: Sequence[int]) -> list[Written]:
        """Write down what each said; those that go on."""
        for draft, token in zip(going, tokens, strict=True):
            draft.ids.append(token)
            draft.is_over = token in self.stops or len(draft.ids) == self.room
        return [draft for draft in going if not draft.is_over]

    def _part(self, going: Sequence[Written], token_R: list[int], depth_R: list[int]) -> int:
        """Give those that said different things rows of their own; how many rows go on."""
        leads: dict[tuple[int, int], int] = {}
        led: set[int] = set()
        forked: list[int] = []
        for draft in going:
            said = draft.row, draft.ids[-1]
            if said not in leads:
                if draft.row in led:
                    leads[said] = self.rectangle.rows + len(forked)
                    forked.append(draft.row)
                    token_R.append(said[1])
                    depth_R.append(depth_R[draft.row])
                else:
                    leads[said] = draft.row
                    led.add(draft.row)
                    token_R[draft.row] = said[1]
            draft.row = leads[said]
        if forked:
            self.rectangle.fork(forked)
        return len(leads)

    def _close_up(self) -> None:
        """Let go of the rows that nobody goes on in."""
        rows = sorted({draft.row for draft in self.drafts})
        if rows and len(rows) < self.rectangle.rows:
            self.rectangle.keep(rows)
            number = {row: i for i, row in enumerate(rows)}
            for draft in self.drafts:
                draft.row = number[draft.row]

    def _settle(self, drafts: Sequence[Written]) -> None:
        """Keep what was computed for these, for what follows them."""
        from_row: list[int] = []
        from_column: list[int] = []
        places: list[int] = []
        for draft in drafts:
            for branch in self.store.chain(draft.known):
                if not branch.is_read:
                    branch.is_read = True
                    long = len(branch.ids)
                    column = self.rectangle.begun + branch.depth - draft.joined
                    from_row += [draft.row] * long
                    from_column += range(column, column + long)
                    places += range(branch.start, branch.start + long)
        if not places:
            return
        row, column, place = (
            torch.tensor(each, device=self.device) for each in (from_row, from_column, places)
        )
        for layer, (keys, values) in self.rectangle.held.items():
            pool = self.store.reserve(layer, values[0])
            pool[0][:, place] = keys[row, ..., column].transpose(0, 1)
            pool[1][:, place] = values[row, :, column].transpose(0, 1)
        self.store.measure()


class Measured:
    """Scores that tokens were drawn from, until all are measured at once."""

    def __init__(self) -> None:
        """Hold nothing yet."""
        self.held = 0
        """Scores."""
        self._rows = 0
        self._scores: list[Tensor] = []
        self._drafts: list[Draft] = []
        self._row: list[int] = []
        self._token: list[int] = []

    def add(self, scores_RV: Tensor, drafts: Sequence[Written], tokens: Sequence[int]) -> None:
        """What drafts, in their rows of now, drew."""
        self._scores.append(scores_RV)
        self._drafts += drafts
        self._row += [self._rows + draft.row for draft in drafts]
        self._token += tokens
        self._rows += len(scores_RV)
        self.held += scores_RV.numel()

    def tell(self) -> None:
        """Tell each draft the log-probabilities and entropies of what it said."""
        device = self._scores[0].device
        row_B, token_B = (torch.tensor(each, device=device) for each in (self._row, self._token))
        logp_B, entropy_B = figures(torch.cat(self._scores), row_B, token_B)
        for draft, *said in zip(self._drafts, logp_B.tolist(), entropy_B.tolist(), strict=True):
            draft.logps.append(said[0])
            draft.entropies.append(said[1])

"""Log-probabilities of answers, computed on a trie: what contexts share is run once.

The last layer and its softmax run on the places that predict an answer's token, and in chunks,
so that memory does not grow with vocabulary times context.

Shapes: N packed tokens, P places that predict something, T action tokens.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from retrograde.backends.layout import Layout
from retrograde.backends.lean import Lean
from retrograde.backends.trie_attention import NAME, attending, led
from retrograde.data.trie import Ids, Trie
from retrograde.ops.cut import WHOLE, Cut
from retrograde.ops.logprobs import scaled

CHUNK_BYTES = 256 << 20
"""Scores of the vocabulary that are held at once."""


@dataclass(frozen=True)
class Asked:
    """Which tokens are asked about, and where in the trie they are predicted."""

    place_P: Tensor
    """Packed tokens that predict an action token, each once."""
    of_T: Tensor
    """Which of these predicts each action token."""
    token_T: Tensor

    @classmethod
    def of(
        cls, trie: Trie, contexts: Sequence[Ids], actions: Sequence[Ids], device: torch.device
    ) -> "Asked":
        """An action token is predicted where what precedes it lies."""
        places = [
            place
            for path, context in zip(trie.paths, contexts, strict=True)
            for place in path[len(context) - 1 :]
        ]
        place_P, of_T = torch.tensor(places).unique(return_inverse=True)
        tokens = [token for action in actions for token in action]
        return cls(place_P.to(device), of_T.to(device), torch.tensor(tokens, device=device))


def packed_logp(
    model: PreTrainedModel,
    contexts: Sequence[Ids],
    actions: Sequence[Ids],
    temperature: float,
    *,
    cut: Cut = WHOLE,
    states: bool = False,
    light: bool = False,
) -> tuple[list[Tensor], list[Tensor]]:
    """log pi of each action's tokens and what the transformer makes of the state before each.

    One pass over the distinct prefixes of all rows, one tensor a row; no states unless asked for.
    With gradient checkpointing the way back runs the layers again, and they have to attend in the
    same way still: go back inside `with attending(model, NAME)`.

    Args:
        model: any that `retrograde.backends.route.shares_prefixes` says yes to.
        contexts: before the answers.
        actions: the answers.
        temperature: scores are divided by it.
        cut: which tokens could be drawn.
        states: whether the states are wanted.
        light: whether the model is one that `retrograde.backends.lean.lean_of` says yes to.
    """
    device = next(model.parameters()).device
    trie = Trie.of([c + a[:-1] for c, a in zip(contexts, actions, strict=True)])
    asked = Asked.of(trie, contexts, actions, device)
    layout = Layout.of(trie, device, model.config.get_text_config().hidden_size)
    ids, position = torch.tensor([trie.ids_N], device=device), layout.query_depth_N[None]
    if light:
        lean = Lean(model)
        lean.reach(1 + int(position.max()))
        hidden = lean(ids, position, lambda _, *seen: led(layout, *seen, scaling=1.0))
    else:
        with attending(model, NAME):
            said = model.get_decoder()(
                input_ids=ids, position_ids=position, use_cache=False, layout=layout
            )
        hidden = said.last_hidden_state
    hidden_PH = hidden[0, asked.place_P]
    head: Any = model.get_output_embeddings()
    logp_T = _logp(head, hidden_PH, asked, temperature, cut)
    sizes = [len(action) for action in actions]
    rows = list(logp_T.split(sizes))
    return rows, list(hidden_PH[asked.of_T].split(sizes)) if states else []


def _logp(
    head: Callable[[Tensor], Tensor],
    hidden_PH: Tensor,
    asked: Asked,
    temperature: float,
    cut: Cut,
) -> Tensor:
    """Chunk by chunk; all but a single one are computed anew on the way back."""
    width = head.out_features * max(4, hidden_PH.element_size())
    step = max(1, CHUNK_BYTES // width)
    order_T = asked.of_T.argsort()
    of_T, token_T = asked.of_T[order_T], asked.token_T[order_T]
    parts = []
    for start in range(0, len(hidden_PH), step):
        first, last = torch.searchsorted(of_T, torch.tensor([start, start + step])).tolist()
        here = Asked(
            torch.arange(start, min(start + step, len(hidden_PH))),
            of_T[first:last] - start,
            token_T[first:last],
        )
        inputs = (head, hidden_PH[start : start + step], here, temperature, cut)
        if len(hidden_PH) <= step or not torch.is_grad_enabled():
            parts.append(_chunk(*inputs))
        else:
            parts.append(checkpoint(_chunk, *inputs, use_reentrant=False))
    logp_T = torch.cat(parts)
    return torch.empty_like(logp_T).index_copy(0, order_T, logp_T)


def _chunk(
    head: Callable[[Tensor], Tensor], hidden: Tensor, asked: Asked, temperature: float, cut: Cut
) -> Tensor:
    """Gather minus logsumexp; a place that several tokens are asked of is computed once."""
    scores_PV = scaled(head(hidden), temperature)
    picked_T = scores_PV[asked.of_T, asked.token_T]
    if cut.is_whole:
        return picked_T - scores_PV.logsumexp(-1)[asked.of_T]
    kept_PV = cut.kept(scores_PV.detach())
    sum_T = scores_PV.masked_fill(~kept_PV, -torch.inf).logsumexp(-1)[asked.of_T]
    # A token that was drawn is kept, whatever rounding says of one at the edge.
    is_kept_T = kept_PV[asked.of_T, asked.token_T]
    return picked_T - torch.where(is_kept_T, sum_T, torch.logaddexp(sum_T, picked_T))

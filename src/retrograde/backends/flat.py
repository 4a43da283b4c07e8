"""Log-probabilities of answers, row by row and padded: for any decoder-only model.

It is the measure that packed log-probabilities are held against, and the way of those
architectures whose attention cannot be led along a trie.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel

from retrograde.backends.padding import padded
from retrograde.ops.cut import WHOLE, Cut
from retrograde.ops.logprobs import selected_logp
from retrograde.policies.protocol import Ids


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
    cut: Cut = WHOLE,
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
    logp_T = selected_logp(said.logits[row_T, column_T], chosen_T, temperature, cut)
    sizes = [len(action) for action in actions]
    if not states:
        return list(logp_T.split(sizes)), []
    before_BAH = said.hidden_states[-1][:, -longest:]
    return list(logp_T.split(sizes)), list(before_BAH[row_T, column_T].split(sizes))

"""Token ids of unequal length in one rectangle, with the positions that undo the padding.

Contexts are padded on the left and answers on the right, so that every answer begins in
the same column and `logits_to_keep` cuts out just the columns that predict it.

Shapes: B rows, C context columns, A answer columns.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

Ids = tuple[int, ...]


class Padded(NamedTuple):
    """One rectangle of contexts, with or without answers."""

    ids_BN: Tensor
    mask_BN: Tensor
    """1 for a token, 0 for padding."""
    positions_BN: Tensor
    """Position of each token in its own row, from 0; 0 at padding."""


def padded(
    contexts: Sequence[Ids], actions: Sequence[Ids] | None, pad: int, device: torch.device
) -> Padded:
    """Contexts on the left, answers (their last token left out) on the right.

    The last token of an answer predicts nothing that is asked for, so it is not fed.
    """
    inputs = [()] * len(contexts) if actions is None else [action[:-1] for action in actions]
    left = max(map(len, contexts))
    right = max(map(len, inputs))
    ids, mask = [], []
    for context, answer in zip(contexts, inputs, strict=True):
        before, after = left - len(context), right - len(answer)
        ids.append([pad] * before + [*context, *answer] + [pad] * after)
        mask.append([0] * before + [1] * (len(context) + len(answer)) + [0] * after)
    mask_BN = torch.tensor(mask, device=device)
    positions_BN = (mask_BN.cumsum(-1) - 1).clamp(min=0)
    return Padded(torch.tensor(ids, device=device), mask_BN, positions_BN)


def microbatches(lengths: Sequence[int], max_tokens: int) -> list[list[int]]:
    """Indices in parts whose padded size stays within a token budget, similar lengths together.

    Raises:
        ValueError: one row alone is longer than the budget.
    """
    longest = max(lengths, default=0)
    if longest > max_tokens:
        raise ValueError(
            f"max_tokens_per_microbatch is {max_tokens}, and one row has {longest} tokens: "
            f"raise it to at least that"
        )
    order = sorted(range(len(lengths)), key=lambda i: (lengths[i], i))
    parts: list[list[int]] = []
    for i in order:
        # Lengths rise, so the newest row is the width of its part.
        if parts and (len(parts[-1]) + 1) * lengths[i] <= max_tokens:
            parts[-1].append(i)
        else:
            parts.append([i])
    return parts

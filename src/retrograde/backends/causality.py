"""Whether a model is what sampling and learning take it for, found out by asking it.

The name of an architecture does not say it. Two short chats are scored, once side by side and
once alone: what is said later must not change what came before, and padding must change nothing.
"""

import torch
from transformers import PreTrainedModel

from retrograde.backends.chat import TransformersChat
from retrograde.backends.flat import action_logp
from retrograde.data.message import Message

TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 0.5}
"""Nats by which two sums of the same numbers may differ."""
LONG = (Message("user", "Name a number between one and nine , and then another one ."),)
SHORT = (Message("user", "Why ?"),)


@torch.inference_mode()
def check_causal(model: PreTrainedModel, chat: TransformersChat, source: str) -> None:
    """Refuse a model that cannot be sampled from token by token, or not in batches.

    Raises:
        ValueError: it keeps its past in a state that cannot be shared by several answers, looks
            ahead, or minds padding.
    """
    if model._is_stateful:  # noqa: SLF001 - transformers' own word for it, which has no other name
        raise ValueError(
            f"{source}: a model that attends to its past is needed, and this one "
            f"({model.config.model_type}) keeps it in a state that answers cannot share"
        )
    long, short = chat.opening(LONG), chat.opening(SHORT)
    said = long[1:4]
    other = (said[0], said[1] + (1 if said[1] == 0 else -1), said[2])
    pad = chat.end_of_turn
    try:
        first, ahead, beside = action_logp(
            model, [long, long, short], [said, other, said], 1.0, pad
        )
        (alone,) = action_logp(model, [short], [said], 1.0, pad)
    except TypeError as cause:
        raise ValueError(f"{source}: the model cannot be run in batches: {cause}") from cause
    tolerance = TOLERANCE[model.dtype]
    if not abs(float(first[0] - ahead[0])) <= tolerance:
        raise ValueError(
            f"{source}: a decoder-only model is needed, and this one looks ahead: another second "
            f"token changes the log-probability of the first by {float(first[0] - ahead[0]):.3g}"
        )
    gap = float((alone - beside).abs().max())
    if not gap <= tolerance:
        raise ValueError(
            f"{source}: in a batch with a longer chat, this model gives an answer a "
            f"log-probability that differs by {gap:.3g}; padding means something to it"
        )

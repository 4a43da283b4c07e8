"""The same model with wider attention heads, for an engine that has no kernel for narrow ones."""

import copy
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import Qwen3Config, Qwen3ForCausalLM


def widened(model: Qwen3ForCausalLM, head: int) -> Qwen3ForCausalLM:
    """A model that says the same, up to rounding, and whose heads have so many dimensions.

    The new dimensions are 0, and what depends on their number is set right: rotary angles by the
    base, the mean square by the norms' weights, and the scale of attention by the queries'.

    Raises:
        ValueError: the heads would not be widened by a whole factor.
    """
    narrow = model.config.head_dim
    if head % narrow:
        raise ValueError(f"heads: a multiple of {narrow} dimensions is needed, got {head}")
    factor = head // narrow
    config: Qwen3Config = copy.deepcopy(model.config)
    config.head_dim = head
    # Pair i turns by base^(-2i/head): with the base to the power `factor` the first pairs' angles
    # are those that they had.
    config.rope_parameters = model.config.rope_parameters | {
        "rope_theta": model.config.rope_parameters["rope_theta"] ** factor
    }
    wide = Qwen3ForCausalLM(config).eval()
    held = dict(model.named_parameters())
    with torch.no_grad():
        for name, parameter in wide.named_parameters():
            parameter.copy_(_wide(name, held[name], head, narrow))
    return wide


def _wide(name: str, weight: Tensor, head: int, narrow: int) -> Tensor:
    kind = name.split(".")[-2]
    if kind in ("q_proj", "k_proj", "v_proj"):
        return _spread(weight.unflatten(0, (-1, narrow)), 1, head).flatten(0, 1)
    if kind == "o_proj":
        return _spread(weight.unflatten(1, (-1, narrow)), 2, head).flatten(1, 2)
    if kind in ("q_norm", "k_norm"):
        # With zeros among them the mean square is smaller by narrow / head; and attention, divided
        # by sqrt(head) and no longer by sqrt(narrow), needs queries larger by the same factor.
        scale = (narrow / head) ** 0.5 if kind == "k_norm" else 1.0
        return _spread(weight, 0, head) * scale
    return weight


def _spread(weight: Tensor, dim: int, head: int) -> Tensor:
    """The halves that rotary embeddings turn together, each with its zeros behind it."""
    halves = weight.chunk(2, dim)
    missing = (head - weight.shape[dim]) // 2
    room = [0, 0] * (weight.dim() - 1 - dim) + [0, missing]
    return torch.cat([nn.functional.pad(half, room) for half in halves], dim)


def saved(model: nn.Module, folder: str | Path, *, least_head: int) -> None:
    """Write it as `from_pretrained` reads it, its heads widened if they are narrower than that."""
    narrow = isinstance(model, Qwen3ForCausalLM) and model.config.head_dim < least_head
    (widened(model, least_head) if narrow else model).save_pretrained(folder)

"""The models that are measured."""

from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel, Qwen3Config, Qwen3ForCausalLM

from retrograde.backends.models import model_directory
from retrograde.environments.hop import Hop


def embedded() -> PreTrainedModel:
    """The embedded policy's size and shape, with fresh weights."""
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=109, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=4, head_dim=16, max_position_embeddings=4096,
        tie_word_embeddings=False,
    )  # fmt: skip
    return Qwen3ForCausalLM(config).eval()


def smollm2() -> PreTrainedModel:
    """SmolLM2-135M-Instruct, in single precision."""
    return AutoModelForCausalLM.from_pretrained(smollm2_directory(), dtype=torch.float32).eval()


def smollm2_directory() -> Path:
    """Where it lies; it is fetched the first time."""
    source, _ = model_directory("smollm2-135m", Hop(), lambda *_: None)
    return Path(source)


def chosen(*, quick: bool) -> dict[str, PreTrainedModel]:
    """By name."""
    found = {"embedded": embedded()}
    return found if quick else found | {"smollm2-135m": smollm2()}

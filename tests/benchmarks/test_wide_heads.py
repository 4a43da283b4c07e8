"""A model with wider heads says what it said before."""

import pytest
import torch
from benchmarks.models import embedded
from benchmarks.wide_heads import saved, widened
from transformers import Qwen3ForCausalLM

CLOSE = 2e-4


@pytest.fixture
def model():
    torch.manual_seed(0)
    found = embedded()
    for name, parameter in found.named_parameters():
        if "norm" in name:  # fresh norms are all 1, and fresh matrices next to 0
            parameter.data.uniform_(0.5, 1.5)
        else:
            parameter.data.normal_(std=0.2)
    return found


def difference(one, other):
    ids = torch.arange(200)[None] * 37 % 109
    with torch.no_grad():
        return float((one(ids).logits - other(ids).logits).abs().max())


@pytest.mark.parametrize("head", [32, 64])
def test_wider_heads_change_nothing(model, head):
    wide = widened(model, head)
    assert wide.config.head_dim == head
    assert difference(model, wide) < CLOSE


def test_each_correction_is_needed(model):
    wide = widened(model, 32)
    for name, parameter in wide.named_parameters():
        if "k_norm" in name:
            parameter.data *= 2**0.5
    assert difference(model, wide) > 100 * CLOSE
    turned = widened(model, 32)
    turned.config.rope_parameters = model.config.rope_parameters
    turned.model.rotary_emb = type(turned.model.rotary_emb)(turned.config)
    assert difference(model, turned) > 100 * CLOSE


def test_only_whole_factors_and_only_what_is_too_narrow(model, tmp_path):
    with pytest.raises(ValueError, match="a multiple of 16 dimensions is needed, got 24"):
        widened(model, 24)
    saved(model, tmp_path, least_head=16)
    assert Qwen3ForCausalLM.from_pretrained(tmp_path).config.head_dim == 16
    saved(model, tmp_path, least_head=32)
    assert difference(model, Qwen3ForCausalLM.from_pretrained(tmp_path)) < CLOSE

"""A model that is not what it is taken for is refused before a run, by what is wrong with it."""

import copy

import pytest
import torch
from transformers import BertConfig, BertLMHeadModel, MambaConfig, T5Config

from retrograde.backends.causality import check_causal
from retrograde.backends.chat import TransformersChat
from retrograde.backends.models import load_model
from retrograde.backends.recommended import PRETRAINED

from .architectures import KINDS, directory, model, tokenizer


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_causal_passes(kind, dtype):
    words = tokenizer(kind)
    check_causal(model(kind, len(words), dtype=dtype), TransformersChat(words), "x")


def test_a_model_that_looks_ahead_is_refused():
    words = tokenizer("qwen2")
    config = BertConfig(
        vocab_size=len(words), hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=48, is_decoder=False,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        ahead = BertLMHeadModel(config).eval()
        for parameter in ahead.parameters():
            if parameter.dim() == 2:
                torch.nn.init.normal_(parameter, std=0.25)
    with pytest.raises(ValueError, match="x: a decoder-only model is needed, and this one looks"):
        check_causal(ahead, TransformersChat(words), "x")


def test_a_model_that_minds_padding_is_refused():
    words = tokenizer("qwen3")
    made = model("qwen3", len(words))
    whole = made.forward

    def unmasked(**given):
        return whole(**given | {"attention_mask": torch.ones_like(given["attention_mask"])})

    minding = copy.copy(made)
    minding.forward = unmasked
    with pytest.raises(ValueError, match="padding means something to it"):
        check_causal(minding, TransformersChat(words), "x")


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (T5Config(vocab_size=400), r"a decoder-only model is needed, this one \(t5\) has an encod"),
        (MambaConfig(vocab_size=400, hidden_size=16, state_size=4, num_hidden_layers=1),
         r"this one \(mamba\) keeps it in a state that answers cannot share"),
    ],
    ids=["t5", "mamba"],
)  # fmt: skip
def test_other_kinds_of_model_are_refused_by_name(config, said, tmp_path):
    source = directory("qwen2", tmp_path)
    config.save_pretrained(tmp_path)
    if config.model_type == "mamba":
        from transformers import MambaForCausalLM

        MambaForCausalLM(config).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=said) as refused:
        load_model(source, PRETRAINED)
    assert str(tmp_path) in str(refused.value)


def test_a_model_that_is_no_language_model_is_refused_by_name(tmp_path):
    source = directory("qwen2", tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "vit"}')
    with pytest.raises(ValueError, match="transformers knows none of the kind vit"):
        load_model(source, PRETRAINED)

"""Tiny models of the architectures people have, with tokenizers and chat templates like theirs.

Random weights, everything else as a directory from a hub: written by `save_pretrained`.
"""

from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + "
    "'\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
LLAMA3 = (
    "{{ bos_token }}{% for m in messages %}{{ '<|start_header_id|>' + m['role'] + "
    "'<|end_header_id|>\n\n' + m['content'] | trim + '<|eot_id|>' }}{% endfor %}"
    "{% if add_generation_prompt %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)
GEMMA = (  # no role for a system, and roles must take turns
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}"
    "{% set first = messages[0]['content'] + '\n\n' %}{% set rest = messages[1:] %}{% else %}"
    "{% set first = '' %}{% set rest = messages %}{% endif %}{% for m in rest %}"
    "{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/...') }}{% endif %}"
    "{{ '<start_of_turn>' + ('model' if m['role'] == 'assistant' else m['role']) + '\n' "
    "+ (first if loop.first else '') + m['content'] | trim + '<end_of_turn>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"
)
SIZE = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 1024,
}
WINDOW = 8
KINDS = ("llama", "qwen2", "qwen3", "gemma3")
SPECIAL = {
    "llama": ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|eom_id|>",
              "<|start_header_id|>", "<|end_header_id|>", "<|finetune_right_pad_id|>"],
    "qwen2": ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
    "qwen3": ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"],
    "gemma3": ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"],
}  # fmt: skip
NAMED = {
    "llama": {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"},
    "qwen2": {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"},
    "qwen3": {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"},
    "gemma3": {
        "bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "unk_token": "<unk>",
    },
}  # fmt: skip
TEMPLATES = {"llama": LLAMA3, "qwen2": CHATML, "qwen3": CHATML, "gemma3": GEMMA}
STOPS = {  # what its makers say ends an answer
    "llama": ["<|end_of_text|>", "<|eom_id|>", "<|eot_id|>"],
    "qwen2": ["<|im_end|>", "<|endoftext|>"],
    "qwen3": ["<|im_end|>", "<|endoftext|>"],
    "gemma3": ["<eos>", "<end_of_turn>"],
}


def tokenizer(kind: str) -> PreTrainedTokenizerFast:
    """Bytes, a few merges, and the special tokens of the kind."""
    alphabet = pre_tokenizers.ByteLevel(add_prefix_space=False)
    built = Tokenizer(models.BPE())
    built.pre_tokenizer, built.decoder = alphabet, decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=alphabet.alphabet(), show_progress=False
    )
    built.train_from_iterator(["Say a word. You said letters, and then"] * 3, trainer)
    built.add_special_tokens([AddedToken(token, normalized=False) for token in SPECIAL[kind]])
    return PreTrainedTokenizerFast(
        tokenizer_object=built, chat_template=TEMPLATES[kind], **NAMED[kind]
    )


def model(kind: str, vocabulary: int, *, dtype=torch.float32) -> PreTrainedModel:
    """Random weights, far from uniform."""
    if kind == "llama":
        made = LlamaForCausalLM, LlamaConfig(**SIZE, vocab_size=vocabulary, num_hidden_layers=2)
    elif kind == "qwen2":
        made = (
            Qwen2ForCausalLM,
            Qwen2Config(
                **SIZE, vocab_size=vocabulary, num_hidden_layers=2, tie_word_embeddings=True
            ),
        )
    elif kind == "qwen3":
        made = (
            Qwen3ForCausalLM,
            Qwen3Config(**SIZE, vocab_size=vocabulary, num_hidden_layers=2, head_dim=16),
        )
    else:  # a layer that sees all between layers that see a window
        made = Gemma3ForCausalLM, Gemma3TextConfig(
            **SIZE, vocab_size=vocabulary, num_hidden_layers=3, head_dim=16, sliding_window=WINDOW,
            query_pre_attn_scalar=16,
            layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        fresh = made[0](made[1])
        for parameter in fresh.parameters():
            if parameter.dim() == 2:
                torch.nn.init.normal_(parameter, std=0.25)
    return fresh.to(dtype).eval()


def directory(kind: str, folder: Path, *, dtype=torch.float32) -> str:
    """What a hub would hold."""
    words = tokenizer(kind)
    made = model(kind, len(words), dtype=dtype)
    made.generation_config.eos_token_id = words.convert_tokens_to_ids(STOPS[kind])
    made.save_pretrained(folder)
    words.save_pretrained(folder)
    return str(folder)

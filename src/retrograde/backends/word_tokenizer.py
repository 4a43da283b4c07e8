"""A word-level tokenizer with a chat template, for the embedded policy."""

import json
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from retrograde.data.message import THOUGHT_CLOSES, THOUGHT_OPENS
from retrograde.data.vocabulary import Vocabulary

PAD, UNKNOWN, END = "<|pad|>", "<|unk|>", "<|end|>"
SPECIAL = (PAD, UNKNOWN, "<|system|>", "<|user|>", "<|assistant|>", END)

TEMPLATE = """\
{%- for message in messages -%}
{%- set role = 'user' if message['role'] == 'tool' else message['role'] -%}
{{- '<|' + role + '|>' + message['content'] + '<|end|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|assistant|>' -}}
{%- endif -%}
"""
CONFIG = {
    "clean_up_tokenization_spaces": False,
    "eos_token": END,
    "pad_token": PAD,
    "padding_side": "left",
    "tokenizer_class": "PreTrainedTokenizerFast",
    "unk_token": UNKNOWN,
}


def write_tokenizer(vocabulary: Vocabulary, folder: Path) -> None:
    """Write a folder that `AutoTokenizer.from_pretrained` reads."""
    folder.mkdir(parents=True, exist_ok=True)
    _tokenizer(vocabulary).save(str(folder / "tokenizer.json"))
    config = json.dumps(CONFIG, indent=2) + "\n"
    (folder / "tokenizer_config.json").write_text(config, encoding="utf-8")
    (folder / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")


def word_tokenizer(vocabulary: Vocabulary, folder: Path) -> PreTrainedTokenizerBase:
    """A tokenizer that knows these words; it is written to the folder on the way."""
    write_tokenizer(vocabulary, folder)
    return AutoTokenizer.from_pretrained(str(folder))


def _tokenizer(vocabulary: Vocabulary) -> Tokenizer:
    """Word by word, but for the phrases."""
    phrases = (THOUGHT_OPENS, THOUGHT_CLOSES, *vocabulary.phrases)
    tokens = dict.fromkeys((*SPECIAL, *phrases, *vocabulary.words))
    numbered = {token: number for number, token in enumerate(tokens)}
    built = Tokenizer(models.WordLevel(numbered, unk_token=UNKNOWN))
    built.pre_tokenizer = pre_tokenizers.Whitespace()
    built.add_special_tokens([AddedToken(token, normalized=False) for token in SPECIAL])
    built.add_tokens([AddedToken(phrase, normalized=False) for phrase in phrases])
    return built

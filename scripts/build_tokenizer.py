"""Builds the word-level tokenizer that ships with the package, from what its environments say.

Run as `python scripts/build_tokenizer.py [FOLDER]`; FOLDER is `src/retrograde/rendering/chat`
unless given. Run it again after changing the words of an environment.
"""

import json
import sys
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

from retrograde.data.message import THOUGHT_CLOSES, THOUGHT_OPENS
from retrograde.environments import hop, lake, market

PAD, UNKNOWN, END = "<|pad|>", "<|unk|>", "<|end|>"
SPECIAL = (PAD, UNKNOWN, "<|system|>", "<|user|>", "<|assistant|>", END)
PHRASES = (THOUGHT_OPENS, THOUGHT_CLOSES, *hop.PHRASES, *lake.PHRASES, *market.PHRASES)
"""A token each, spaces and all, so that contexts are short."""
WORDS = (*hop.WORDS, *lake.WORDS, *market.WORDS)

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


def tokenizer() -> Tokenizer:
    """Word by word, but for the phrases."""
    tokens = dict.fromkeys((*SPECIAL, *PHRASES, *WORDS))
    vocabulary = {token: number for number, token in enumerate(tokens)}
    built = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    built.pre_tokenizer = pre_tokenizers.Whitespace()
    built.add_special_tokens([AddedToken(token, normalized=False) for token in SPECIAL])
    built.add_tokens([AddedToken(phrase, normalized=False) for phrase in PHRASES])
    return built


def main(arguments: list[str]) -> int:
    """Writes a folder that `AutoTokenizer.from_pretrained` reads."""
    folder = Path(arguments[0] if arguments else "src/retrograde/rendering/chat")
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer().save(str(folder / "tokenizer.json"))
    config = json.dumps(CONFIG, indent=2) + "\n"
    (folder / "tokenizer_config.json").write_text(config, encoding="utf-8")
    (folder / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Small tokenizers that behave like real ones, with chat templates that do."""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)
from transformers import PreTrainedTokenizerFast

from retrograde.backends.chat import TransformersChat

TEMPLATES = Path(__file__).parent / "templates"
TEXT = [
    "search Ada friend", "Who is Ada's friend's boss?", "Found: Max\nLeft: boss\n", "Look it up.",
    "<|im_start|>assistant\n", "<think>\n\n</think>\n\n", '<tool_call>\n{"name": "search"',
    "<tool_response>\nMax\n</tool_response>", "<start_of_turn>model\n", "user\nanswer Max\n\n",
]  # fmt: skip
TAGS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
IM = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")

LINES = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
)
LINES += r"|\s*[\r\n]+|\s+(?!\S)|\s+"
"""How Llama 3 and Qwen divide text before it is encoded: line ends stay together."""

KINDS = {
    # template: (kind of tokenizer, special tokens, plain added tokens, bos, eos)
    "chatml": ("bytes", IM, (), None, "<|endoftext|>"),
    "qwen25": ("lines", IM, TAGS[2:4], None, "<|im_end|>"),
    "qwen3": ("lines", IM, TAGS, None, "<|im_end|>"),
    "qwen3_thinking": ("lines", IM, TAGS, None, "<|im_end|>"),
    "llama3": (
        "lines",
        ("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>",
         "<|eot_id|>", "<|eom_id|>", "<|python_tag|>"),
        (), "<|begin_of_text|>", "<|eot_id|>",
    ),
    "gemma3": (
        "pieces", ("<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"), ("\n\n", "<b>"), "<bos>",
        "<eos>",
    ),
    "gemma2": (
        "pieces", ("<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"), ("\n\n", "<b>"), "<bos>",
        "<eos>",
    ),
    "gpt_oss": (
        "bytes", ("<|start|>", "<|message|>", "<|end|>", "<|return|>", "<|call|>"), (), None,
        "<|return|>",
    ),
    "mistral": (
        "spaced", ("<s>", "</s>"), ("[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"),
        "<s>", "</s>",
    ),
}  # fmt: skip


@cache
def tokenizer(
    name: str, template: str | None = None, kind: str | None = None
) -> PreTrainedTokenizerFast:
    """The tokenizer of that name, or one with another template or of another kind."""
    usual, special, plain, bos, eos = KINDS[name]
    kind = kind or usual
    built = _bytes(kind) if kind in ("bytes", "lines") else _pieces(spaced=kind == "spaced")
    built.add_special_tokens([AddedToken(token, normalized=False) for token in special])
    built.add_tokens([AddedToken(token, normalized=False) for token in plain])
    text = template or (TEMPLATES / f"{name}.jinja").read_text()
    return PreTrainedTokenizerFast(
        tokenizer_object=built, bos_token=bos, eos_token=eos, chat_template=text
    )


def _bytes(kind: str) -> Tokenizer:
    """Byte-level BPE; bytes: divided as GPT-2 and SmolLM2 do; lines: as Qwen and Llama 3."""
    whole = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if kind == "lines":
        split = pre_tokenizers.Split(Regex(LINES), "isolated")
        bytes_alone = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        whole = pre_tokenizers.Sequence([split, bytes_alone])
    built = Tokenizer(models.BPE())
    built.pre_tokenizer, built.decoder = whole, decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=360, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    built.train_from_iterator(TEXT * 3, trainer)
    return built


def _pieces(*, spaced: bool) -> Tokenizer:
    """BPE of pieces with bytes to fall back on, as of Gemma; spaced: as of Llama 2 and Mistral."""
    learned = Tokenizer(models.BPE())
    learned.pre_tokenizer = pre_tokenizers.Split("\n", "isolated")
    learned.normalizer = normalizers.Replace(" ", "▁")
    trainer = trainers.BpeTrainer(vocab_size=160, show_progress=False)
    learned.train_from_iterator(TEXT * 3, trainer)
    model = json.loads(learned.to_str())["model"]
    vocabulary = {"<unk>": 0} | {f"<0x{byte:02X}>": 1 + byte for byte in range(256)}
    for piece in sorted(model["vocab"], key=model["vocab"].get):
        vocabulary.setdefault(piece, len(vocabulary))
    merges = [tuple(merge) for merge in model["merges"]]
    built = Tokenizer(
        models.BPE(vocabulary, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    )
    first = [normalizers.Prepend("▁")] if spaced else []
    built.normalizer = normalizers.Sequence([*first, normalizers.Replace(" ", "▁")])
    built.pre_tokenizer = learned.pre_tokenizer
    strip = [decoders.Strip(" ", 1, 0)] if spaced else []
    built.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *strip]
    )
    return built


@cache
def chat(name: str) -> TransformersChat:
    """The tokenizer of that name, as rendering knows it."""
    return TransformersChat(tokenizer(name))


def ids(name: str, text: str) -> tuple[int, ...]:
    """Ids of text with its control tokens, as a person would write a chat out."""
    return tuple(tokenizer(name).encode(text, add_special_tokens=False))


def read(name: str, numbers: Sequence[int]) -> str:
    """The text of ids, control tokens included."""
    return tokenizer(name).decode(list(numbers), clean_up_tokenization_spaces=False)

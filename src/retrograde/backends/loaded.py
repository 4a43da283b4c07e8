"""A model with its tokenizer, loaded as the options say, and saved so that anybody can read it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from safetensors import SafetensorError
from torch import nn
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from retrograde.backends.causality import check_causal
from retrograde.backends.chat import TransformersChat
from retrograde.backends.lora import adapter_settings, new_adapter, stored_adapter
from retrograde.backends.model_options import ModelOptions
from retrograde.backends.recommended import Recommended
from retrograde.backends.stops import generation_eos, padding_id
from retrograde.backends.weights import recompute_layers
from retrograde.data.stored import Scribe

if TYPE_CHECKING:
    from peft import PeftModel

T = TypeVar("T")
TAGGED = (("<", ">"), ("[", "]"))
"""How added tokens begin and end that mark something, whether their tokenizer says so or not."""


@dataclass(frozen=True)
class LoadedModel:
    """A model with its tokenizer."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    chat: TransformersChat
    recommended: Recommended
    adapter: "PeftModel | None" = None
    """peft's view of the model, if it is an adapter that is trained."""

    def text(self, ids: Sequence[int]) -> str:
        """What ids say, special tokens included; for people."""
        return str(self.tokenizer.decode(list(ids)))

    @property
    def scribe(self) -> Scribe:
        """Knows what ids say, and which stand outside the text: `<|end|>`, `<think>`, stops."""
        added = {
            i
            for i, token in self.tokenizer.added_tokens_decoder.items()
            if token.special or (token.content[:1], token.content[-1:]) in TAGGED
        }
        return Scribe(self.text, added | set(self.tokenizer.all_special_ids))

    def save(self, directory: Path) -> None:
        """Write what plain `from_pretrained` reads: a model's, or peft's of an adapter."""
        if self.adapter is None:
            self.model.save_pretrained(directory)
        else:
            self.adapter.save_pretrained(str(directory))
        self.tokenizer.save_pretrained(directory)


def loaded_model(
    source: str, recommended: Recommended, options: ModelOptions, *, seed: int
) -> LoadedModel:
    """Load a model, or an adapter with the model it belongs to.

    Raises:
        ValueError: what is there cannot be trained on; the message says what is missing. Nothing
            is loaded before the small files have been looked at.
    """
    adapter = adapter_settings(Path(source))
    base = source if adapter is None else _base(source, adapter)
    revision = options.revision if adapter is None else adapter.get("revision") or options.revision
    remote: dict[str, Any] = {"trust_remote_code": options.trust_remote_code, "revision": revision}
    config = _read(AutoConfig.from_pretrained, base, "model configuration", remote)
    _check_kind(base, config, options)
    words = source if (Path(source) / "tokenizer_config.json").exists() else base
    tokenizer = _read(AutoTokenizer.from_pretrained, words, "tokenizer", remote)
    _check_tokenizer(words, tokenizer, config)
    chat = TransformersChat(tokenizer, generation_eos(base, config))
    dtype = getattr(torch, options.dtype)
    model: PreTrainedModel = _read(
        AutoModelForCausalLM.from_pretrained, base, "model", remote | {"dtype": dtype}
    )
    held = None
    if adapter is not None:
        held = stored_adapter(model, Path(source), adapter, options.lora)
    elif options.lora.rank is not None:
        held = new_adapter(model, options.lora, seed)
    if torch.cuda.is_available():
        nn.Module.cuda(model)
    model.eval()
    if options.gradient_checkpointing:
        recompute_layers(model)
    _agree(model, tokenizer, chat)
    check_causal(model, chat, source)
    return LoadedModel(model, tokenizer, chat, recommended, held)


def loaded_chat(source: str) -> TransformersChat:
    """A tokenizer with its chat template, without a model's weights.

    Raises:
        ValueError: there is none, or no chat template that can be used.
    """
    tokenizer = _read(AutoTokenizer.from_pretrained, source, "tokenizer", {})
    try:
        ends = GenerationConfig.from_pretrained(source).eos_token_id
    except OSError:  # older models say it in their configuration, or nowhere
        ends = None
    return TransformersChat(tokenizer, ends)


def _agree(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, chat: TransformersChat
) -> None:
    """Have what is saved say how answers are ended and padded."""
    text = model.config.get_text_config()
    pad = padding_id(tokenizer, chat.stops, text.to_dict().get("pad_token_id"))
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(pad)
    text.pad_token_id = model.generation_config.pad_token_id = pad
    # So that plain `generate` stops where answers did.
    model.generation_config.eos_token_id = sorted(chat.stop_ids)
    # An embedding gives its padding token no gradient. Padding is masked and gets none anyway;
    # but the same token may be the end of a turn, of which there is something to learn.
    embedding = model.get_input_embeddings()
    if isinstance(embedding, nn.Embedding):
        embedding.padding_idx = None


def _base(adapter: str, settings: dict[str, Any]) -> str:
    base = str(settings["base_model_name_or_path"])
    if Path(base).is_absolute() and not (Path(base) / "config.json").exists():
        raise ValueError(
            f"{adapter}: this adapter belongs to the model in {base}, and there is none there; "
            f"put it back, or name its place in adapter_config.json"
        )
    return base


def _check_kind(source: str, config: PreTrainedConfig, options: ModelOptions) -> None:
    kind = config.model_type
    if config.is_encoder_decoder:
        raise ValueError(
            f"{source}: a decoder-only model is needed, this one ({kind}) has an encoder as well"
        )
    its_own = options.trust_remote_code and "AutoModelForCausalLM" in (
        config.to_dict().get("auto_map") or {}
    )
    if kind not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and not its_own:
        raise ValueError(
            f"{source}: a causal language model is needed, and transformers knows none of the kind "
            f"{kind}"
        )


def _check_tokenizer(
    source: str, tokenizer: PreTrainedTokenizerBase, config: PreTrainedConfig
) -> None:
    # Where there are no files, transformers makes up a tokenizer that knows no words.
    if len(tokenizer) <= len(tokenizer.all_special_tokens):
        raise ValueError(f"{source}: no tokenizer could be loaded from it: it knows no words")
    if len(tokenizer) > config.get_text_config().vocab_size:
        raise ValueError(
            f"{source}: the tokenizer has {len(tokenizer)} tokens and the model embeds "
            f"{config.get_text_config().vocab_size}; they do not belong together"
        )


def _read(load: Callable[..., T], source: str, what: str, options: dict[str, Any]) -> T:
    try:
        return load(source, **options)
    except SafetensorError as cause:
        raise ValueError(f"{source} is damaged: no {what} can be read from it: {cause}") from cause
    except (OSError, ValueError, KeyError, ImportError) as cause:
        hint = " (here: --model.trust-remote-code)" if "trust_remote_code" in str(cause) else ""
        raise ValueError(f"{source}: no {what} could be loaded from it: {cause}{hint}") from cause

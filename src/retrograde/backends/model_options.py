"""How a model is loaded and what of it is trained: the options `--model.X`."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

ALL_LINEAR = "all-linear"


@dataclass(frozen=True, slots=True)
class Lora:
    """An adapter of low rank, trained in place of the weights."""

    rank: int | None = None
    """Rank of the adapter; None trains the whole model. Dropout is none: an answer has to be
    learned under the very distribution it was sampled from."""
    alpha: float | None = None
    """The adapter's output is scaled by alpha / rank; None for twice the rank."""
    targets: str = ALL_LINEAR
    """Modules that get one: `all-linear` for every linear layer but the last, or the ends of
    their names with commas between them (q_proj,v_proj)."""

    def __post_init__(self) -> None:
        if self.rank is None:
            if self.alpha is not None or self.targets != ALL_LINEAR:
                raise ValueError("model.lora: alpha and targets need a rank, got none")
            return
        if self.rank < 1:
            raise ValueError(f"model.lora.rank: at least 1 is needed, got {self.rank}")
        if self.alpha is not None and not (math.isfinite(self.alpha) and self.alpha > 0):
            raise ValueError(f"model.lora.alpha: a number above 0 is needed, got {self.alpha}")
        if not all(self.names):
            raise ValueError(
                f"model.lora.targets: {ALL_LINEAR} or names with commas between them are needed, "
                f"got {self.targets!r}"
            )

    @property
    def names(self) -> tuple[str, ...]:
        """What `targets` names."""
        return tuple(name.strip() for name in self.targets.split(","))


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """How a model is loaded and what of it is trained."""

    dtype: Literal["float32", "bfloat16"] = "float32"
    """Precision of the weights while they run. With bfloat16 the optimizer keeps those that are
    trained in float32, and so are LoRA's."""
    gradient_checkpointing: bool = False
    """Compute each layer again on the way back instead of keeping what it computed: less memory,
    more time, the same numbers."""
    max_new_tokens: int | None = None
    """Tokens an answer may take; None for what the environment says, with room for a tokenizer
    that cuts words into pieces."""
    revision: str | None = None
    """Branch, tag or commit of a hub id; None for the newest of its main branch."""
    trust_remote_code: bool = False
    """Run the code that comes with a model."""
    lora: Lora = Lora()

    def __post_init__(self) -> None:
        if self.max_new_tokens is not None and self.max_new_tokens < 1:
            raise ValueError(
                f"model.max_new_tokens: at least 1 is needed, got {self.max_new_tokens}"
            )

    @classmethod
    def recorded(cls, settings: Mapping[str, Any]) -> "ModelOptions":
        """From what a manifest says; one of a run without such options says nothing."""
        return cls(**{**settings, "lora": Lora(**settings.get("lora", {}))})


PLAIN = ModelOptions()
"""Every option left as it is."""

"""Which weights of a model are trained, and copies that share the others."""

import copy
from typing import TypeVar

from torch import nn
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

Module = TypeVar("Module", bound=nn.Module)


def trained_weights(module: nn.Module) -> dict[str, nn.Parameter]:
    """The weights that are trained, by name: all of them, or an adapter's."""
    return {name: weight for name, weight in module.named_parameters() if weight.requires_grad}


def copied(module: Module) -> Module:
    """A copy with trained weights of its own; what is never trained stays one tensor for both."""
    return copy.deepcopy(module, {id(w): w for w in module.parameters() if not w.requires_grad})


def frozen_copy(module: Module) -> Module:
    """A copy that stays as the module is now."""
    return copied(module).eval().requires_grad_(requires_grad=False)


def recompute_layers(model: PreTrainedModel) -> None:
    """Have a model compute its layers again on the way back instead of keeping their insides.

    Raises:
        ValueError: the model drops out, which a second computation would do differently.
    """
    dropping = {
        name: rate
        for name, rate in model.config.get_text_config().to_dict().items()
        if ("dropout" in name or name.endswith("pdrop")) and isinstance(rate, float) and rate > 0
    }
    if dropping:
        raise ValueError(
            f"model.gradient_checkpointing: a model without dropout is needed, this one has "
            f"{', '.join(f'{name}={rate}' for name, rate in dropping.items())}"
        )
    again = {"use_reentrant": False}
    # transformers renamed the method in the course of version 5.
    if "activation_checkpointing_enable" in dir(model):
        model.activation_checkpointing_enable(activation_checkpointing_kwargs=again)
    else:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=again)


def ready_to_learn(module: Module) -> Module:
    """In the mode answers are sampled in; layers that are to be recomputed are told so."""
    module.eval()
    for layer in module.modules():
        # Such a layer looks at its own mode alone; what is inside it keeps the one of sampling.
        if isinstance(layer, GradientCheckpointingLayer) and layer.gradient_checkpointing:
            layer.training = True
    return module

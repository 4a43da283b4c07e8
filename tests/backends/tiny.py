"""Models with fresh weights, of three kinds, and small rows for them."""

import random
import types

import torch
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from retrograde.backends.learner import TransformersLearner
from retrograde.backends.sampler import TransformersPolicy
from retrograde.data.rows import Row
from retrograde.schedules.update import Update

VOCABULARY = 24
STOP = frozenset({3, 5})
SIZE = {
    "vocab_size": VOCABULARY,
    "hidden_size": 24,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "max_position_embeddings": 128,
}
KINDS = ("qwen3", "llama", "smollm")


def model(kind="qwen3", *, attention="sdpa", dtype=torch.float32, seed=0) -> PreTrainedModel:
    """A model that is far from uniform, so that every token it sees matters."""
    if kind == "qwen3":
        config = Qwen3Config(
            **SIZE, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
            tie_word_embeddings=False,
        )  # fmt: skip
    elif kind == "llama":
        config = LlamaConfig(**SIZE, num_attention_heads=4, num_key_value_heads=4)
    else:  # like SmolLM2: three query heads on one key head, tied embeddings, many positions
        config = LlamaConfig(
            **SIZE, num_attention_heads=3, num_key_value_heads=1, tie_word_embeddings=True,
            rope_parameters={"rope_type": "default", "rope_theta": 100000.0},
        )  # fmt: skip
    config._attn_implementation = attention
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = (Qwen3ForCausalLM if kind == "qwen3" else LlamaForCausalLM)(config)
        for parameter in made.parameters():
            if parameter.dim() == 2:
                torch.nn.init.normal_(parameter, std=0.25)
    assert made.config._attn_implementation == attention
    return exact(made).eval() if dtype is torch.float64 else made.to(dtype).eval()


ARCHITECTURES = {
    "llama": (LlamaConfig, LlamaForCausalLM, {}),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM, {}),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM, {}),
    "gemma3": (
        Gemma3TextConfig,
        Gemma3ForCausalLM,
        {
            "sliding_window": 4,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        },
    ),
}
"""What attention has to cope with: shared key heads, norms of heads, windows."""


def architecture(name, *, seed=0, dtype=torch.float64) -> PreTrainedModel:
    """A small model of an architecture, far from uniform."""
    config, kind, more = ARCHITECTURES[name]
    size = SIZE | {"num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = kind(config(**size, head_dim=8, **more))
        for parameter in made.parameters():
            if parameter.dim() == 2:
                torch.nn.init.normal_(parameter, std=0.25)
    return exact(made).eval() if dtype is torch.float64 else made.to(dtype).eval()


def exact(made) -> PreTrainedModel:
    """In float64 throughout: these architectures take their norms in float32 whatever they are."""
    for module in made.modules():
        if "RMSNorm" in type(module).__name__:
            module.forward = types.MethodType(_norm, module)
    return made.double()


def _norm(self, x):
    eps = self.variance_epsilon if hasattr(self, "variance_epsilon") else self.eps
    weight = self.weight + 1 if "Gemma" in type(self).__name__ else self.weight
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


def sequences(count, *, seed=0, longest=14):
    """Contexts and answers of unequal lengths; stop ids are among their tokens."""
    chance = random.Random(seed)

    def tokens(low, high):
        return tuple(chance.randrange(VOCABULARY) for _ in range(chance.randint(low, high)))

    return [tokens(1, longest) for _ in range(count)], [tokens(1, 6) for _ in range(count)]


def rows(count, *, seed=0, advantages=(1.0, -0.5, 0.25)) -> list[Row]:
    """Rows of an update that is a little off policy."""
    contexts, actions = sequences(count, seed=seed)
    chance = random.Random(seed + 1)
    return [
        Row(
            contexts[i],
            actions[i],
            tuple(-3.0 + chance.uniform(-0.3, 0.3) for _ in actions[i]),
            advantages[i % len(advantages)],
            i % 3,
            i // 4,
            (0, i // 4, i, i),
        )
        for i in range(count)
    ]


def learner(made, *, update=None, **options) -> TransformersLearner:
    update = update or Update(learning_rate=1e-2, warmup_steps=0)
    return TransformersLearner(made, update, **({"pad": 0} | options))


def policy(made, **options) -> TransformersPolicy:
    return TransformersPolicy(made, STOP, **options)

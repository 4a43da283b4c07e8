"""Training on tries by flex_attention against flat, and sampling against `generate`, on one GPU.

Random weights of Qwen2.5-1.5B's configuration in bfloat16. Prints one JSON object. Without a CUDA
device it says so and ends with 3; `--device cpu --tiny` goes the same way on a small model.
"""

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from transformers import PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from benchmarks.tree_training import at2po, ceiling, history, learner, siblings, taken
from retrograde.backends.sampler import TransformersPolicy
from retrograde.policies.protocol import Sampling

NO_DEVICE = 3


def model_of(device: str, *, tiny: bool) -> PreTrainedModel:
    """Fresh weights."""
    size: dict[str, Any] = {
        "vocab_size": 151_936, "hidden_size": 1536, "intermediate_size": 8960,
        "num_hidden_layers": 28, "num_attention_heads": 12, "num_key_value_heads": 2,
    }  # fmt: skip
    if tiny:
        size |= {"vocab_size": 512, "hidden_size": 64, "intermediate_size": 128}
        size |= {"num_hidden_layers": 2, "num_attention_heads": 4}
    torch.manual_seed(0)
    config = Qwen2Config(**size, max_position_embeddings=8192, tie_word_embeddings=True)
    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    return Qwen2ForCausalLM(config).to(device=device, dtype=dtype).eval()


def seconds(call: Callable[[], None], device: str, repetitions: int) -> list[float]:
    """Wall clock, after a first call."""
    found: list[float] = []
    for _ in range(repetitions + 1):
        if device == "cuda":
            torch.cuda.synchronize()
        begun = time.perf_counter()
        call()
        if device == "cuda":
            torch.cuda.synchronize()
        found.append(time.perf_counter() - begun)
    return found[1:]


def training(model: PreTrainedModel, asked: argparse.Namespace) -> dict[str, Any]:
    """Updates, flat over trie."""
    vocabulary = model.config.vocab_size
    scale = 0.25 if asked.tiny else 1.0
    context = 64 if asked.tiny else 4096
    cases = {
        "a siblings": siblings(vocabulary, context=context),
        "b at2po": at2po(vocabulary, scale),
        "d history": history(vocabulary, scale),
    }
    found: dict[str, Any] = {}
    for name, case in cases.items():
        times: dict[str, list[float]] = {}
        for kind in ("trie", "flat"):
            owner = learner(model, flat=kind == "flat")
            times[kind] = seconds(partial(taken, owner, [case]), asked.device, asked.repetitions)
        middle = {kind: statistics.median(each) for kind, each in times.items()}
        found[name] = middle | {
            "flat / trie": middle["flat"] / middle["trie"], "ceiling": ceiling([case])
        }  # fmt: skip
    return found


def sampling(model: PreTrainedModel, asked: argparse.Namespace) -> dict[str, Any]:
    """4 contexts x 256 tokens x 8 siblings x 32 new tokens."""
    vocabulary = model.config.vocab_size
    contexts = [siblings(vocabulary - i, 256)[0][0] for i in range(4)]
    many = [context for context in contexts for _ in range(8)]
    policy = TransformersPolicy(model, frozenset({vocabulary}))

    def ours() -> None:
        policy.forget()
        asyncio.run(policy.sample(many, Sampling(1.0, 32), 0))

    ids = torch.tensor(many, device=asked.device)

    def theirs() -> None:
        model.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=True, max_new_tokens=32,
            min_new_tokens=32, pad_token_id=0,
        )  # fmt: skip

    middle = {
        name: statistics.median(seconds(call, asked.device, asked.repetitions))
        for name, call in (("ours", ours), ("generate", theirs))
    }
    return middle | {"generate / ours": middle["generate"] / middle["ours"]}


def main() -> int:
    """Both, or the reason why not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--repetitions", type=int, default=3)
    asked = parser.parse_args()
    if asked.device == "cuda" and not torch.cuda.is_available():
        sys.stderr.write("benchmarks.gpu: no CUDA device was found by torch\n")
        return NO_DEVICE
    model = model_of(asked.device, tiny=asked.tiny)
    found = {
        "device": torch.cuda.get_device_name() if asked.device == "cuda" else "cpu",
        "torch": torch.__version__,
        "sampling": sampling(model, asked),
        "training": training(model, asked),
    }
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

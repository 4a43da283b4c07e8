"""How much of a plain matrix product's speed an update and a decoding step reach.

The yardstick is the products alone: every weight of every layer, and of the head where it is
asked, times activations of the same shapes, forwards and, for an update, both ways backwards.
"""

import argparse
import asyncio
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from benchmarks.measure import Figure, interleaved, main, ratio
from benchmarks.models import chosen
from benchmarks.tree_training import learner, siblings, taken, words
from retrograde.backends.sampler import TransformersPolicy
from retrograde.data.trie import Trie
from retrograde.policies.protocol import Sampling

TARGET = 0.7
BATCH = 64
PROMPT, NEW = 16, 16


def weights(model: PreTrainedModel) -> list[Tensor]:
    """Of every product in the layers."""
    decoder: Any = model.get_decoder()
    return [m.weight.detach() for m in decoder.modules() if isinstance(m, nn.Linear)]


def products(model: PreTrainedModel, tokens: int, predicted: int, *, backward: bool) -> None:
    """The same products on their own."""
    head: Any = model.get_output_embeddings()
    shapes = [(weight, tokens) for weight in weights(model)] + [(head.weight.detach(), predicted)]
    seen: dict[tuple[int, int], Tensor] = {}
    with torch.inference_mode():
        for weight, rows in shapes:
            inner = weight.shape[1]
            x = seen.setdefault((rows, inner), torch.ones(rows, inner, dtype=weight.dtype))
            y = x @ weight.T
            if backward:
                _ = y @ weight
                _ = y.T @ x


def sampled(policy: TransformersPolicy, contexts: list[tuple[int, ...]]) -> None:
    """Some tokens for each context, none of which ends an answer."""
    policy.forget()
    asyncio.run(policy.sample(contexts, Sampling(1.0, NEW), 0))


def measured(asked: argparse.Namespace) -> list[Figure]:
    """Update and decoding on every model."""
    found: list[Figure] = []
    for name, model in chosen(quick=asked.quick).items():
        vocabulary = model.config.vocab_size
        case = siblings(vocabulary)
        trie = Trie.of([context + action[:-1] for context, action in case])
        predicted = sum(len(action) for _, action in case) - len(case) + 1
        chance = random.Random(0)
        contexts = [words(chance, PROMPT, vocabulary) for _ in range(BATCH)]
        policy = TransformersPolicy(model, frozenset({vocabulary}))

        def decoded(model: PreTrainedModel = model) -> None:
            products(model, BATCH * PROMPT, 0, backward=False)
            for _ in range(NEW):
                products(model, BATCH, BATCH, backward=False)

        calls: dict[str, dict[str, Callable[[], None]]] = {
            "update": {
                "whole": partial(taken, learner(model, flat=False), [case]),
                "products": partial(
                    products, model, len(trie.ids_N), predicted, backward=True
                ),
            },
            "decode": {"whole": partial(sampled, policy, contexts), "products": decoded},
        }  # fmt: skip
        for what, pair in calls.items():
            seconds = interleaved(pair, asked.repetitions)
            middle, lowest, highest = ratio(seconds["products"], seconds["whole"])
            target = None if name == "embedded" else TARGET
            found.append(
                Figure(
                    "roofline", f"{name}, {what}", "products alone / all", middle, lowest, highest,
                    target,
                )
            )  # fmt: skip
    return found


if __name__ == "__main__":
    main(__doc__, measured)

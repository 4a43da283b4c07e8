# ruff: noqa: PLC0415 - TRL's Python has none of ours, and ours has no TRL
"""One update in a process of its own; says how far its memory rose, in bytes.

It rose above what every update holds: a small one has been made before, so that gradients, moments
and code are there.

    python -m benchmarks.peak '{"way": "trie", "layers": 2, "siblings": 8, ...}'

`trl` computes log-probabilities by TRL's own functions and runs in TRL's Python.
"""

import gc
import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

Rows = list[tuple[list[int], list[int]]]
Update = Callable[[Rows], None]


def model_of(layers: int, vocabulary: int) -> Any:
    """SmolLM2's widths, with fresh weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=vocabulary, hidden_size=576, intermediate_size=1536,
            num_hidden_layers=layers, num_attention_heads=9, num_key_value_heads=3,
            max_position_embeddings=8192, tie_word_embeddings=True,
        )
    ).eval()  # fmt: skip


def resident(name: str) -> int:
    """Bytes that this process holds now (VmRSS), or at most since the last reset (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def reset() -> None:
    """Begin to look for a new peak."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")


def by_trl(model: Any) -> Update:
    """As GRPOTrainer does: logits of the completions, then selective_log_softmax."""
    from trl.trainer.utils import selective_log_softmax

    def update(rows: Rows) -> None:
        model.zero_grad()
        ids = torch.tensor([context + action for context, action in rows])
        long = len(rows[0][1])
        logits = model(input_ids=ids, logits_to_keep=long + 1, use_cache=False).logits[:, :-1]
        logps = selective_log_softmax(logits[:, -long:], ids[:, -long:])
        (-logps.sum()).backward()

    return update


def by_us(model: Any, *, flat: bool, most: int) -> Update:
    """An update of the learner."""
    from retrograde.backends.learner import TransformersLearner
    from retrograde.backends.route import Flat
    from retrograde.data.rows import Row
    from retrograde.losses.policy import PolicyLoss
    from retrograde.schedules.update import Update

    settings = Update(learning_rate=1e-12, warmup_steps=0)
    owner = TransformersLearner(model, settings, pad=0, max_tokens_per_microbatch=most)
    if flat:
        owner.route = Flat(model, 0)

    def update(rows: Rows) -> None:
        made = [
            Row(tuple(context), tuple(action), (-1.0,) * len(action), 1.0, 0, 0, (0, 0, i, i))
            for i, (context, action) in enumerate(rows)
        ]
        owner.step(made, PolicyLoss())

    return update


def main(job: dict[str, Any]) -> int:
    """Bytes."""
    torch.set_num_threads(1)
    chance = random.Random(0)
    vocabulary = job["vocabulary"]
    model = model_of(job["layers"], vocabulary)

    def rows_of(context: int, action: int) -> Rows:
        rows: Rows = []
        for _ in range(job["trees"]):
            shared = [chance.randrange(vocabulary) for _ in range(context)]
            rows += [
                (shared, [chance.randrange(vocabulary) for _ in range(action)])
                for _ in range(job["siblings"])
            ]
        return rows

    if job["way"] == "trl":
        update = by_trl(model)
    else:
        update = by_us(model, flat=job["way"] == "flat", most=job["most"])
    # What every update holds is no part of the question: gradients, moments, and code.
    update(rows_of(8, 4))
    rows = rows_of(job["context"], job["action"])
    reset()
    before = resident("VmRSS")
    update(rows)
    return resident("VmHWM") - before


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    sys.stdout.write(str(main(json.loads(sys.argv[1]))) + "\n")

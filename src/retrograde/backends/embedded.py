"""The embedded policy: a small Qwen3 and a word-level tokenizer, warm-started on demonstrations.

Everything but its size is what a user's own model goes through.
"""

import asyncio
import hashlib
import inspect
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import torch
from platformdirs import user_cache_path
from torch import nn
from transformers import AutoTokenizer, PreTrainedTokenizerBase, Qwen3Config, Qwen3ForCausalLM

from retrograde.backends.chat import TransformersChat
from retrograde.backends.flat import action_logp
from retrograde.backends.word_tokenizer import word_tokenizer
from retrograde.data.seeds import derived
from retrograde.data.vocabulary import Vocabulary
from retrograde.environments.description import described
from retrograde.environments.protocol import Environment
from retrograde.policies.protocol import Ids
from retrograde.rendering.history import Renderer

TOKENIZER = files("retrograde.rendering") / "chat"
MARK = "retrograde_warm_start"
"""Key of a model's config under which it is said how it was made; checkpoints keep it."""
TRAIN_TASKS = 1_000_000
"""Demonstrations are of tasks out of this many, or of all if there are fewer."""
Progress = Callable[[str, float], None]
"""Told what is being done and how much of it is done, 0 to 1."""


@dataclass(frozen=True, slots=True)
class WarmStart:
    """How long, and how hard, a new model is trained on demonstrations."""

    steps: int
    batch: int = 128
    learning_rate: float = 3e-3
    warmup_steps: int = 30
    weight_decay: float = 0.01
    flat_every: int = 4
    """Every so many batches, the flat history is shown instead of the managed context, so
    that a policy trained under either knows what it reads. 0 for never."""
    parts: int = 1
    """Passes that a batch is computed in, short contexts apart from long ones, so that less of
    it is padding. The numbers are the same up to rounding."""
    seed: int = 0
    tasks: int = 1_000_000
    """Training tasks that demonstrations are taken from, where making one takes long."""


WARM_STARTS = {
    "geo_search": WarmStart(steps=500, flat_every=0, parts=4),
    "hop": WarmStart(steps=300),
    "lake": WarmStart(steps=60, flat_every=0),
    "limit_holdem": WarmStart(steps=150, flat_every=0),
    "market": WarmStart(steps=100, flat_every=0),
    "rock_paper_scissors": WarmStart(steps=300, flat_every=0),
    "reasoning:countdown": WarmStart(steps=400, flat_every=0, tasks=4000),
    "shop": WarmStart(steps=150, batch=32, flat_every=0),
    "tools": WarmStart(steps=60, batch=64, flat_every=0),
}
"""Long enough to know the format and to be right sometimes, short enough to leave the rest
to reinforcement learning."""


def embedded_tokenizer(vocabulary: Vocabulary | None = None) -> PreTrainedTokenizerBase:
    """A word-level tokenizer, chat template included.

    Args:
        vocabulary: what it has to know; None takes the tokenizer that ships with the package.
    """
    if vocabulary is None:
        return AutoTokenizer.from_pretrained(str(TOKENIZER))
    with tempfile.TemporaryDirectory() as folder:
        return word_tokenizer(vocabulary, Path(folder))


def new_model(vocabulary: int, seed: int) -> Qwen3ForCausalLM:
    """A Qwen3 of about a hundred thousand parameters with fresh weights."""
    config = Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=16,
        max_position_embeddings=2048,
        rope_parameters={"rope_type": "default", "rope_theta": 1000.0},
        tie_word_embeddings=False,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen3ForCausalLM(config)
        for name, parameter in model.named_parameters():
            if "embed" in name:
                nn.init.normal_(parameter, std=0.05)
            elif parameter.dim() == 2:  # noqa: PLR2004 - a matrix
                shrink = 0.5 if "o_proj" in name or "down_proj" in name else 1.0
                nn.init.normal_(parameter, std=shrink * parameter.shape[1] ** -0.5)
    return model.eval()


def embedded_directory(environment: Environment, progress: Progress) -> Path:
    """A directory with the warm-started model for an environment; made once, then cached.

    Args:
        environment: what the demonstrations are of.
        progress: told how far the warm start is.
    """
    settings = WARM_STARTS.get(environment.name, WarmStart(steps=200))
    place = user_cache_path("retrograde") / "warm-starts" / _key(environment, settings)
    if (place / "config.json").exists():
        return place
    model, tokenizer = warm_started(environment, settings, progress)
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as unfinished:
        model.save_pretrained(unfinished)
        tokenizer.save_pretrained(unfinished)
        if place.exists():  # left without a config by an interrupted run of an older version
            shutil.rmtree(place)
        Path(unfinished).chmod(0o755)
        os.rename(unfinished, place)  # noqa: PTH104 - the directory itself, atomically
        Path(unfinished).mkdir()  # what the context manager expects to remove
    return place


def _key(environment: Environment, settings: WarmStart) -> str:
    """A content hash: anything that changes the outcome of a warm start changes it."""
    description = described(environment)
    if description is None:
        raise ValueError(
            f"{environment.name}: a warm start needs an environment that is plain data, or that "
            "describes itself"
        )
    parts = [
        json.dumps(description, sort_keys=True, default=str),
        json.dumps(asdict(settings), sort_keys=True),
        version("torch"),
        version("transformers"),
        *(entry.read_text() for entry in sorted(TOKENIZER.iterdir(), key=lambda e: e.name)),
        *(source.read_text() for source in (Path(__file__), *_sources(type(environment)))),
    ]
    digest = hashlib.blake2b("\n".join(parts).encode(), digest_size=8).hexdigest()
    return f"{environment.name}-{digest}"


def _sources(kind: type) -> list[Path]:
    """The module of an environment, and its neighbours if it is in a package of its own."""
    source = Path(inspect.getfile(kind))
    if kind.__module__.startswith("retrograde.environments.") and kind.__module__.count(".") > 2:  # noqa: PLR2004
        return sorted(source.parent.glob("*.py"))
    return [source]


def warm_started(
    environment: Environment, settings: WarmStart, progress: Progress
) -> tuple[Qwen3ForCausalLM, PreTrainedTokenizerBase]:
    """A fresh model, trained by imitation on noisy demonstrations."""
    tokenizer = embedded_tokenizer(environment.vocabulary)
    pairs = asyncio.run(_demonstrations(environment, tokenizer, settings, progress))
    model = new_model(len(tokenizer), settings.seed).train()
    optimizer = torch.optim.AdamW(
        model.parameters(), settings.learning_rate, weight_decay=settings.weight_decay
    )
    order = torch.randperm(
        len(pairs), generator=torch.Generator().manual_seed(settings.seed)
    ).tolist()
    for step in range(settings.steps):
        rise = min(1.0, (step + 1) / settings.warmup_steps)
        fall = 1.0 - 0.9 * step / settings.steps
        optimizer.param_groups[0]["lr"] = settings.learning_rate * rise * fall
        chosen = [pairs[i] for i in order[step * settings.batch : (step + 1) * settings.batch]]
        flat = settings.flat_every and step % settings.flat_every == settings.flat_every - 1
        shown = [(pair.history if flat else pair.context, pair.action) for pair in chosen]
        total = sum(len(action) for _, action in shown)
        optimizer.zero_grad()
        for part in _parts(shown, settings.parts):
            contexts, actions = [context for context, _ in part], [action for _, action in part]
            logp = torch.cat(action_logp(model, contexts, actions, 1.0, 0))
            loss = -logp.mean() * (len(logp) / total)
            loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        progress(f"warm start on {environment.name}", (step + 1) / settings.steps)
    for config in (model.config, model.generation_config):  # so that plain `generate` stops
        config.eos_token_id = TransformersChat(tokenizer).end_of_turn
    model.config.update({MARK: {"environment": environment.name} | asdict(settings)})
    return model.eval(), tokenizer


def _parts(shown: list[tuple[Ids, Ids]], parts: int) -> list[list[tuple[Ids, Ids]]]:
    """A batch in parts of like length; as it is, if there is one part."""
    if parts == 1:
        return [shown]
    ordered = sorted(shown, key=lambda pair: len(pair[0]) + len(pair[1]))
    size = -(-len(ordered) // parts)
    return [ordered[i : i + size] for i in range(0, len(ordered), size)]


@dataclass(frozen=True, slots=True)
class Demonstration:
    """One turn of a teacher, under both of the contexts it can be shown in."""

    context: Ids
    history: Ids
    action: Ids


async def _demonstrations(
    environment: Environment,
    tokenizer: PreTrainedTokenizerBase,
    settings: WarmStart,
    progress: Progress,
) -> list[Demonstration]:
    count, seed = settings.steps * settings.batch, settings.seed
    chat = TransformersChat(tokenizer)
    managed, flat = Renderer(chat, environment.context), Renderer(chat, "full")
    pairs: list[Demonstration] = []
    tasks = min(settings.tasks, environment.size("train") or settings.tasks)
    number = 0
    while len(pairs) < count:
        number += 1
        task = environment.task("train", derived(seed, "demonstration", number) % tasks)
        episode = await environment.open(task, derived(seed, number))
        short, long = managed.open(episode.opening()), flat.open(episode.opening())
        for turn in range(environment.turn_limit):
            text = episode.demonstrate(derived(seed, number, turn))
            action = chat.said(text)
            _check_words(action, tokenizer, text, environment.name)
            pairs.append(Demonstration(managed.context(short), flat.context(long), action))
            said = await episode.act(text)
            if said.end is not None:
                break
            short = managed.answered(short, action, said.messages)
            long = flat.answered(long, action, said.messages)
        await episode.close()
        progress(f"demonstrations of {environment.name}", min(1.0, len(pairs) / count))
    return pairs[:count]


def _check_words(
    action: Ids, tokenizer: PreTrainedTokenizerBase, text: str, environment: str
) -> None:
    if tokenizer.unk_token_id in action:
        known = ", ".join(sorted(tokenizer.get_vocab())[:8])
        raise ValueError(
            f"{environment}: its teacher says {text!r}, which holds a word that the embedded "
            f"tokenizer does not know (it knows {known}, ...): name it in the environment's "
            f"vocabulary"
        )

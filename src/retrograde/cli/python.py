"""`retrograde.train`: what the command does, as a function, for environments made in Python."""

import asyncio
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict, Unpack

from retrograde.algorithms.algorithm import Algorithm
from retrograde.algorithms.registry import algorithm_named
from retrograde.cli.quiet import quiet_libraries
from retrograde.environments.protocol import Environment
from retrograde.environments.registry import environment_named
from retrograde.trainer.checkpoint import checkpoints
from retrograde.trainer.run import Run

if TYPE_CHECKING:
    from retrograde.backends.model_options import ModelOptions
    from retrograde.cli.settings import Settings
    from retrograde.rewards.weighted import Reward, Weighted


class RunSettings(TypedDict, total=False):
    """The fields of `Run`, each of which may be left out."""

    steps: int | None
    max_env_steps: int | None
    max_tokens: int | None
    max_seconds: float | None
    seed: int
    prompts: int | None
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    weight_decay: float
    eval_every: int | None
    eval_first: int
    eval_episodes: int | None
    save_every: int | None
    keep_checkpoints: int
    keep_best: str | None
    keep_rollouts: int
    max_tokens_per_microbatch: int
    turn_seconds: float
    episode_seconds: float
    reward_seconds: float
    max_observation_tokens: int
    max_context_tokens: int | None
    threaded: bool


@dataclass(frozen=True)
class Trained:
    """A run that is over."""

    out: Path
    """Its directory: manifest, metrics, rollout trees, checkpoints."""
    checkpoint: Path
    """The last one: a `save_pretrained` directory."""
    metrics: Sequence[dict[str, float]]
    """One for each iteration, the first before any learning."""

    @property
    def success(self) -> float:
        """Share of the held-out tasks that were done at the end, at temperature 1."""
        return next(line["eval/success"] for line in reversed(self.metrics) if _is_evaluated(line))


def train(
    environment: Environment | str,
    *,
    algorithm: Algorithm | str = "rtpo",
    model: str = "embedded",
    model_options: "ModelOptions | None" = None,
    reward: "Sequence[str | Reward | Weighted]" = (),
    out: Path | str | None = None,
    resume: bool | Literal["anyway"] = False,
    log: Sequence[str] = (),
    quiet: bool = False,
    **run: Unpack[RunSettings],
) -> Trained:
    """Train a model on an environment; the same as the command `retrograde train`.

    Args:
        environment: an environment, or the name of one that needs no options.
        algorithm: an algorithm, such as `rtpo(siblings=4)`, or the name of one.
        model: `embedded`, another registered name, a directory, or a hub id.
        model_options: how it is loaded and what of it is trained, such as
            `ModelOptions(lora=Lora(rank=16))`; None for all of it, in float32.
        reward: what turns earn instead: as `--reward` takes it, or functions, or `Weighted` ones.
        out: where the run is kept; a new directory in runs/ if left out.
        resume: go on with the run in `out`; "anyway" also with other settings, which are shown.
        log: loggers that are told as well: tensorboard, trackio, wandb, mlflow.
        quiet: show nothing.
        run: how long, how much at once, and so on: the fields of `Run`.

    Raises:
        ValueError: bad input; nothing has been written.
        RunError: the run cannot go on, and why; KeyboardInterrupt: it was stopped, and saved.
    """
    quiet_libraries()
    from retrograde.backends.model_options import PLAIN
    from retrograde.cli.settings import Settings
    from retrograde.loggers.registry import loggers_named
    from retrograde.rewards.registry import rewards_named

    world = environment_named(environment)() if isinstance(environment, str) else environment
    method = algorithm_named(algorithm)() if isinstance(algorithm, str) else algorithm
    named = algorithm if isinstance(algorithm, str) else "own"
    wanted = Run(**run)
    return _done(
        Settings(
            named,
            environment if isinstance(environment, str) else world.name,
            model,
            method,
            world,
            model_options or PLAIN,
            wanted,
            rewards_named(reward),
            _place(out, f"{world.name}-{named}-{wanted.seed}", resume=bool(resume)),
            bool(resume),
            quiet,
            (),
            resume == "anyway",
            loggers_named(",".join(log)),
        )
    )


def _done(asked: "Settings") -> Trained:
    """Check everything, train, and say what came of it."""
    from retrograde.cli.place import check_out
    from retrograde.cli.settings import fitting

    settings = fitting(asked)
    check_out(settings.out, resume=settings.resume)
    _in_peace(settings)
    lines = (settings.out / "metrics.jsonl").read_text().splitlines()
    last = checkpoints(settings.out / "checkpoints")[-1]
    return Trained(settings.out, last, [json.loads(line) for line in lines])


def _place(out: Path | str | None, name: str, *, resume: bool) -> Path:
    from retrograde.cli.settings import usual_out

    return usual_out(name, resume=resume) if out is None else Path(out)


def _in_peace(settings: "Settings") -> None:
    """Train, also in a notebook, whose event loop is busy with this very call."""
    if _is_looping():
        with ThreadPoolExecutor(1) as beside:
            beside.submit(_trained, settings).result()
    else:
        _trained(settings)


def _is_looping() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _trained(settings: "Settings") -> None:
    from retrograde.cli.train import carried_out_shown, ready, summary

    training = ready(settings)
    panel = carried_out_shown(training)
    if not settings.quiet:
        summary(training.settings, panel)


def _is_evaluated(line: dict[str, float]) -> bool:
    return "eval/success" in line

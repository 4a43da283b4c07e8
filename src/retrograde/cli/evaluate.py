"""`retrograde evaluate`: success of a checkpoint on held-out tasks."""

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from retrograde.backends.loaded import LoadedModel
from retrograde.backends.model_options import PLAIN, ModelOptions
from retrograde.backends.models import load_model, model_directory
from retrograde.backends.sampler import TransformersPolicy
from retrograde.cli.folded import Folded
from retrograde.cli.panel import Panel
from retrograde.cli.settings import parse_environment
from retrograde.environments.protocol import Environment
from retrograde.environments.threaded import Threaded
from retrograde.policies.protocol import Answer, Ids, Policy, Sampling
from retrograde.rendering.history import Renderer
from retrograde.trainer.checkpoint import COMPLETE, fault
from retrograde.trainer.evaluation import evaluate
from retrograde.trainer.manifest import read_manifest
from retrograde.trainer.run import Run


class Shown:
    """A policy that shows how far an evaluation is: half of it at temperature 1, half greedily."""

    def __init__(self, policy: Policy, turns: int, progress: Callable[[str, float], None]) -> None:
        """Bind a policy; all tasks take their turns together, so its calls are counted."""
        self._policy, self.version = policy, policy.version
        self._turns = turns
        self._progress = progress
        self._half, self._calls = 0, 0

    async def sample(self, contexts: Sequence[Ids], sampling: Sampling, seed: int) -> list[Answer]:
        """The policy's own answers."""
        how = "at temperature 1" if sampling.temperature else "greedily"
        share = (self._half + min(1.0, self._calls / self._turns)) / 2
        self._progress(f"playing held-out tasks {how}", share)
        self._calls += 1
        return await self._policy.sample(contexts, sampling, seed)

    async def score(self, contexts: Sequence[Ids], actions: Sequence[Ids]) -> list[list[float]]:
        """The policy's own."""
        return await self._policy.score(contexts, actions)

    def next_half(self, *, is_last: bool) -> None:
        """All tasks were played once."""
        self._half, self._calls = self._half + 1, 0
        if is_last:
            self._progress("playing held-out tasks greedily", 1.0)


def main(arguments: Sequence[str]) -> Callable[[], int]:
    """Check what is asked for, and return the evaluation.

    Raises:
        ValueError: bad input; a checkpoint that is damaged is.
    """
    asked, rest = parser().parse_known_args(list(arguments))
    if asked.episodes is not None and asked.episodes < 1:
        raise ValueError(f"--episodes: at least 1 is needed, got {asked.episodes}")
    if (Path(asked.checkpoint) / COMPLETE).exists():
        wrong = fault(Path(asked.checkpoint), of_model=True)
        if wrong is not None:
            raise ValueError(f"{asked.checkpoint} is damaged: {wrong}")
    recorded, run, options = _recorded(Path(asked.checkpoint), asked.environment)
    environment = parse_environment(asked.environment, [*recorded, *rest], "retrograde evaluate")
    with Panel("evaluate", Run(), quiet=asked.json) as panel:
        source, recommended = model_directory(asked.checkpoint, environment, panel.progress)
    loaded = load_model(source, recommended, options)
    tokens = recommended.answer_tokens(environment, options)
    return partial(_evaluated, asked, environment, loaded, run, tokens)


def _evaluated(
    asked: argparse.Namespace, environment: Environment, loaded: LoadedModel, run: Run, tokens: int
) -> int:
    recommended, budget = loaded.recommended, run.max_tokens_per_microbatch
    # How a batch is divided decides which of the generator's numbers an answer gets.
    policy = TransformersPolicy(
        loaded.model, loaded.chat.stop_ids, max_tokens_per_microbatch=budget
    )
    with Panel("evaluate", Run(), quiet=asked.json) as panel:
        shown = Shown(policy, environment.turn_limit, panel.progress)
        metrics = asyncio.run(
            evaluate(
                Threaded(environment) if run.threaded else environment,
                Renderer(loaded.chat, environment.context),
                shown,
                episodes=asked.episodes or run.eval_episodes or recommended.eval_episodes,
                max_new_tokens=tokens,
                limits=run.limits(policy.max_context_tokens),
                watch=lambda _groups, greedy: shown.next_half(is_last=greedy),
            )
        )
    if asked.json:
        print(json.dumps(metrics))
        return 0
    table = Table(title=f"{asked.checkpoint} on {asked.environment}", title_justify="left")
    for column in ("", "held-out"):
        table.add_column(column, justify="right" if column else "left")
    for name, value in metrics.items():
        table.add_row(name, f"{value:.3f}")
    Console(file=sys.stdout).print(table)
    return 0


def _recorded(checkpoint: Path, name: str) -> tuple[list[str], Run, ModelOptions]:
    """The environment options, the settings and the model of the run a checkpoint is of."""
    folder = checkpoint.parent.parent
    if not (folder / "manifest.json").exists():
        return [], Run(), PLAIN
    settings = read_manifest(folder)["settings"]
    if settings["environment"] != name:
        return [], Run(), PLAIN
    words: list[str] = []
    for option, value in settings["environment_settings"].items():
        if isinstance(value, dict):
            continue  # hashes of what an environment holds, which are no option
        if isinstance(value, bool):
            words.append(f"--environment.{'' if value else 'no-'}{option.replace('_', '-')}")
        elif value is not None:
            words += [f"--environment.{option.replace('_', '-')}", str(value)]
    return words, Run(**settings["run"]), ModelOptions.recorded(settings.get("model_settings", {}))


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    made = argparse.ArgumentParser(
        prog="retrograde evaluate",
        description="Play held-out tasks with a checkpoint, at temperature 1 and greedily. "
        "Options of the environment (--environment.hops 5) are taken from the checkpoint's run "
        "where they are not given.",
        epilog="example:\n  retrograde evaluate runs/hop-rtpo-0/checkpoints/step-000010 "
        "--environment hop",
        formatter_class=Folded,
        allow_abbrev=False,
    )
    made.add_argument("checkpoint", help="a directory, a registered name, or a hub id")
    made.add_argument("--environment", required=True, help="what to play")
    made.add_argument(
        "--episodes", type=int, help="held-out tasks (default: the run's, or the model's)"
    )
    made.add_argument("--json", action="store_true", help="print one JSON object")
    return made

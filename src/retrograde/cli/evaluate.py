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

from retrograde.backends.models import LoadedModel, load_model, model_directory
from retrograde.backends.sampler import TransformersPolicy
from retrograde.cli.panel import Panel
from retrograde.cli.settings import parse_environment
from retrograde.environments.protocol import Environment
from retrograde.rendering.history import Renderer
from retrograde.trainer.evaluation import evaluate
from retrograde.trainer.manifest import read_manifest
from retrograde.trainer.run import Run


def main(arguments: Sequence[str]) -> Callable[[], int]:
    """Check what is asked for, and return the evaluation."""
    asked, rest = _parser().parse_known_args(list(arguments))
    if asked.episodes is not None and asked.episodes < 1:
        raise ValueError(f"--episodes: at least 1 is needed, got {asked.episodes}")
    recorded, run = _recorded(Path(asked.checkpoint), asked.environment)
    environment = parse_environment(asked.environment, [*recorded, *rest], "retrograde evaluate")
    with Panel("evaluate", Run(), quiet=asked.json) as panel:
        source, recommended = model_directory(asked.checkpoint, environment, panel.progress)
    return partial(_evaluated, asked, environment, load_model(source, recommended), run)


def _evaluated(
    asked: argparse.Namespace, environment: Environment, loaded: LoadedModel, run: Run
) -> int:
    recommended, budget = loaded.recommended, run.max_tokens_per_microbatch
    metrics = asyncio.run(
        evaluate(
            environment,
            Renderer(loaded.chat, environment.context),
            # How a batch is divided decides which of the generator's numbers an answer gets.
            TransformersPolicy(
                loaded.model, loaded.chat.stop_ids, max_tokens_per_microbatch=budget
            ),
            episodes=asked.episodes or run.eval_episodes or recommended.eval_episodes,
            max_new_tokens=environment.max_new_tokens * recommended.token_factor,
            turn_seconds=run.turn_seconds,
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


def _recorded(checkpoint: Path, name: str) -> tuple[list[str], Run]:
    """The environment options and the settings of the run that a checkpoint is of."""
    folder = checkpoint.parent.parent
    if not (folder / "manifest.json").exists():
        return [], Run()
    settings = read_manifest(folder)["settings"]
    if settings["environment"] != name:
        return [], Run()
    words: list[str] = []
    for option, value in settings["environment_settings"].items():
        if isinstance(value, dict):
            continue  # hashes of what an environment holds, which are no option
        if isinstance(value, bool):
            words.append(f"--environment.{'' if value else 'no-'}{option.replace('_', '-')}")
        elif value is not None:
            words += [f"--environment.{option.replace('_', '-')}", str(value)]
    return words, Run(**settings["run"])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="retrograde evaluate",
        description="Play held-out tasks with a checkpoint, at temperature 1 and greedily. "
        "Options of the environment (--environment.hops 5) are taken from the checkpoint's run "
        "where they are not given.",
        epilog="example: retrograde evaluate runs/hop-rtpo-0/checkpoints/step-000010 "
        "--environment hop",
        allow_abbrev=False,
    )
    parser.add_argument("checkpoint", help="a directory, a registered name, or a hub id")
    parser.add_argument("--environment", required=True, help="what to play")
    parser.add_argument(
        "--episodes", type=int, help="held-out tasks (default: the run's, or the model's)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser

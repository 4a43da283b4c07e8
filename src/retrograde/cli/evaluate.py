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
from retrograde.trainer.run import Run


def main(arguments: Sequence[str]) -> Callable[[], int]:
    """Check what is asked for, and return the evaluation."""
    asked, rest = _parser().parse_known_args(list(arguments))
    if asked.episodes is not None and asked.episodes < 1:
        raise ValueError(f"--episodes: at least 1 is needed, got {asked.episodes}")
    rest = [*_recorded(Path(asked.checkpoint), asked.environment), *rest]
    environment = parse_environment(asked.environment, rest, "retrograde evaluate")
    with Panel("evaluate", Run(), quiet=asked.json) as panel:
        source, recommended = model_directory(asked.checkpoint, environment, panel.progress)
    return partial(_evaluated, asked, environment, load_model(source, recommended))


def _evaluated(asked: argparse.Namespace, environment: Environment, loaded: LoadedModel) -> int:
    recommended = loaded.recommended
    metrics = asyncio.run(
        evaluate(
            environment,
            Renderer(loaded.chat, environment.context),
            TransformersPolicy(loaded.model, loaded.chat.stop_ids),
            episodes=asked.episodes or recommended.eval_episodes,
            max_new_tokens=environment.max_new_tokens * recommended.token_factor,
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


def _recorded(checkpoint: Path, name: str) -> list[str]:
    """The environment options of the run a checkpoint is of, so that they need not be repeated."""
    manifest = checkpoint.parent.parent / "manifest.json"
    if not manifest.exists():
        return []
    settings = json.loads(manifest.read_text())["settings"]
    if settings["environment"] != name:
        return []
    words: list[str] = []
    for option, value in settings["environment_settings"].items():
        if isinstance(value, bool):
            words.append(f"--environment.{'' if value else 'no-'}{option.replace('_', '-')}")
        elif value is not None:
            words += [f"--environment.{option.replace('_', '-')}", str(value)]
    return words


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
    parser.add_argument("--episodes", type=int, help="held-out tasks (default: the model's)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser

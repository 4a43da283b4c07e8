"""What `retrograde train --help` prints: the options people reach for, on one screen."""

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, get_args

from docstring_parser import parse, parse_from_object

from retrograde.algorithms.algorithm import Algorithm
from retrograde.algorithms.options import written_out
from retrograde.backends.model_options import ModelOptions
from retrograde.trainer.run import Run

COLUMNS, LINES = 100, 50
"""One screen."""
INDENT = 34
"""Where the meaning of an option begins."""
LONG = 24
"""A default is cut off after so many letters."""
LENGTH = {
    "steps": "iterations; or",
    "max_env_steps": "turns generated, after which the run ends; or",
    "max_tokens": "tokens generated, after which it ends; or",
    "max_seconds": "seconds, without evaluations, after which it ends",
    "prompts": "tasks an iteration; the model recommends how many",
    "seed": "of tasks, worlds, sampling and the order of minibatches",
    "eval_every": "iterations between evaluations; about six in a run if left out",
    "eval_episodes": "held-out tasks an evaluation; the model recommends how many",
}
MODEL = {
    "dtype": "precision of the weights while they run; or bfloat16",
    "max_new_tokens": "tokens an answer may take, if not what the environment says",
}
HEAD = """\
usage: retrograde train [OPTIONS]

Train a model on an environment. With no options: RTPO on hop with the embedded model, in minutes.
"""
EXAMPLES = """\
examples:
  retrograde train --algorithm grpo --environment lake --seed 1 --out runs/lake
  retrograde train --environment hop --environment.hops 5 --algorithm.siblings 4
  retrograde train --resume --out runs/lake
Another --algorithm, --environment or --model has other options: name it beside --help.
Every option, in full: retrograde train --help-all"""


def short_help(
    names: Mapping[str, str], method: Callable[..., Algorithm], world: Callable[..., Any]
) -> str:
    """The options that are used most, those of the chosen method and environment among them.

    Args:
        names: of the chosen algorithm, environment and model.
        method: the algorithm's function.
        world: what makes the environment.
    """
    before = [
        HEAD,
        "what runs:",
        _option("--algorithm NAME", f"`retrograde list algorithms` (now {names['algorithm']})"),
        _option(
            "--environment NAME",
            f"`retrograde list environments`, or FILE.py:NAME (now {names['environment']})",
        ),
        _option("--model NAME", f"registered name, directory or hub id (now {names['model']})"),
        _option("--reward NAME", "what turns earn instead; as often as you like: docs/rewards.md"),
        "how long and how much (a value that is shown is the default):",
        *_fields(Run, "--", LENGTH),
        "what is kept and shown:",
        _option("--out DIR", "where the run is kept; a new directory in runs/ if left out"),
        _option("--resume", "go on with the run in --out, or with the last one of its name"),
        _option("--log NAMES", "loggers beside metrics.jsonl: tensorboard, trackio, wandb, mlflow"),
        _option("--quiet", "print the closing summary only"),
        _option("--json", "print one JSON object a line on stdout, and nothing else"),
    ]
    model = [
        "model:",
        *_fields(ModelOptions, "--model.", MODEL),
        _option("--model.lora.rank N", "train an adapter of this rank, not the weights"),
    ]
    chosen = [f"{names['algorithm']}:", *_parameters(written_out(method), "--algorithm.")]
    played = [f"{names['environment']}:", *_parameters(world, "--environment.")]
    room = LINES - sum(part.count("\n") + 1 for part in (*before, *model, EXAMPLES))
    if len(played) > 1:
        chosen = _cut(chosen, max(room - len(played), room // 2))
        played = _cut(played, room - len(chosen))
    else:
        chosen, played = _cut(chosen, room), []
    return "\n".join([*before, *chosen, *played, *model, EXAMPLES])


def _cut(lines: list[str], most: int) -> list[str]:
    """At most so many lines, the last of which says how many are left out."""
    if len(lines) <= most:
        return lines
    left = len(lines) - most + 1
    return [*lines[: most - 1], f"  ... and {left} more: --help-all"]


def _parameters(maker: Callable[..., Any], prefix: str) -> list[str]:
    """An option for each parameter of a function or a dataclass."""
    said = _meanings(maker)
    return [
        _valued(prefix, name, parameter.annotation, parameter.default, said.get(name, ""))
        for name, parameter in inspect.signature(maker).parameters.items()
        if parameter.kind is not parameter.VAR_KEYWORD
    ]


def _fields(record: type, prefix: str, wanted: Mapping[str, str]) -> list[str]:
    parameters = inspect.signature(record).parameters
    return [
        _valued(prefix, name, parameters[name].annotation, parameters[name].default, about)
        for name, about in wanted.items()
    ]


def _meanings(documented: Callable[..., Any]) -> dict[str, str]:
    """What is said of each parameter: in the docstring, or under the field."""
    found = parse(inspect.getdoc(documented) or "").params
    if inspect.isclass(documented):
        for record in (each for each in documented.__mro__[::-1] if each is not object):
            found += parse_from_object(record).params
    return {entry.arg_name: " ".join((entry.description or "").split()) for entry in found}


def _valued(prefix: str, name: str, kind: Any, default: Any, about: str) -> str:
    dashed = name.replace("_", "-")
    if isinstance(default, bool):
        return _option(f"{prefix}{'no-' if default else ''}{dashed}", about)
    if default is None or default is inspect.Parameter.empty or default == ():
        takes_number = {int, float} & {kind, *get_args(kind)}
        return _option(f"{prefix}{dashed} {'N' if takes_number else 'VALUE'}", about)
    shown = str(default)
    if len(shown) > LONG:
        shown = f"{shown[: LONG - 3]}..."
    return _option(f"{prefix}{dashed} {shown}", about)


def _option(words: str, about: str) -> str:
    """An option on one line; what does not fit is left out, sentence by sentence."""
    start = f"  {words} ".ljust(INDENT)
    room = COLUMNS - len(start)
    said = about.rstrip(".")
    if said[1:2].islower():
        said = said[0].lower() + said[1:]
    if len(said) > room:
        first = re.split(r"(?:\. |; )(?![^(]*\))", said)[0]
        said = first if len(first) <= room else f"{first[: room - 4].rsplit(' ', 1)[0]} ..."
    return start + said

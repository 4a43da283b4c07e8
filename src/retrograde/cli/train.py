"""`retrograde train`: put the parts together and run the loop."""

import asyncio
import fcntl
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from torch import Tensor

from retrograde.algorithms.algorithm import Algorithm
from retrograde.backends.critic import SharedCritic, TransformersCritic, critic_of
from retrograde.backends.learner import TransformersLearner
from retrograde.backends.loaded import LoadedModel
from retrograde.backends.models import load_model, model_directory
from retrograde.backends.recommended import Recommended
from retrograde.backends.sampler import TransformersPolicy
from retrograde.cli.panel import Panel
from retrograde.cli.settings import Settings, environment_settings, named_out, parse_train
from retrograde.data.seeds import derived
from retrograde.environments.threaded import Threaded
from retrograde.policies.protocol import Sampling
from retrograde.rendering.history import Renderer
from retrograde.rollouts.grow import Grower
from retrograde.rollouts.progress import Watch, unwatched
from retrograde.trainer.actors import LocalActors
from retrograde.trainer.checkpoint import checkpoints, load_state, save_checkpoint
from retrograde.trainer.cut_off import MOST, complaint
from retrograde.trainer.evaluation import evaluate, succeeded
from retrograde.trainer.journal import DiskJournal, Show
from retrograde.trainer.loop import train
from retrograde.trainer.manifest import check_same, read_manifest, settings_of, write_manifest
from retrograde.trainer.ports import Metrics, Ports
from retrograde.trainer.run import Run, State

ITERATIONS = 10
"""Length of a run for which neither the user nor the model names one."""
TRAIN_TASKS = 1_000_000
"""Training tasks are drawn from this many."""
CRITIC = "critic/"
"""Begins the names of a critic's tensors in a checkpoint."""


@dataclass
class Parts:
    """The pieces of a run that are put together here."""

    loaded: LoadedModel
    policy: TransformersPolicy
    learner: TransformersLearner
    critic: TransformersCritic | SharedCritic | None
    renderer: Renderer
    max_new_tokens: int

    def state(self) -> dict[str, Tensor]:
        """What a resumed run needs besides the policy's weights."""
        critic = {} if self.critic is None else self.critic.state()
        return self.learner.state() | {f"{CRITIC}{name}": critic[name] for name in critic}

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Take back what `state` gave."""
        self.learner.load_state(tensors)
        if self.critic is not None:
            own = {n.removeprefix(CRITIC): t for n, t in tensors.items() if n.startswith(CRITIC)}
            self.critic.load_state(own)


@dataclass(frozen=True)
class Training:
    """A run that only has to be started."""

    settings: Settings
    record: Mapping[str, Any]
    """Every resolved setting, as plain data."""
    parts: Parts
    state: State
    lock: int
    """The descriptor that holds the run's directory."""


def main(arguments: Sequence[str]) -> Callable[[], int]:
    """Check everything, make what the run needs, and return the run itself.

    Raises:
        ValueError: bad input; nothing has been written.
    """
    return partial(_run, ready(settings_from(arguments)))


def ready(settings: Settings) -> Training:
    """Everything a run needs, made while a panel shows how far that is.

    Raises:
        ValueError: bad input; nothing has been written.
    """
    with _panel(settings) as panel:
        return prepared(settings, panel.progress)


def settings_from(arguments: Sequence[str]) -> Settings:
    """What was asked for; a resumed run repeats its own words first.

    Raises:
        ValueError: bad input; nothing has been written.
    """
    if "--resume" in arguments and not {"-h", "--help"} & set(arguments):
        # Options that belong to the run's own algorithm mean nothing before that is known.
        out = named_out(arguments) or parse_train(arguments).out
        words = read_manifest(out)["arguments"]
        settings = parse_train([*words, *arguments])
    else:
        settings = parse_train(arguments)
    check_out(settings.out, resume=settings.resume)
    return settings


def prepared(settings: Settings, progress: Callable[[str, float], None]) -> Training:
    """Load or make what a run needs, and lock its directory.

    Raises:
        ValueError: bad input; nothing has been written.
    """
    wanted, stored = settings.model_name, {}
    if settings.resume:
        stored = read_manifest(settings.out)["settings"]
        check_same({name: stored.get(name) for name in settings.names}, settings.names)
        wanted = str(_latest(settings.out))
    source, recommended = model_directory(wanted, settings.environment, progress, settings.model)
    settings = resolved(settings, recommended)
    record = settings_of(
        settings.names,
        settings.algorithm,
        environment_settings(settings.environment),
        settings.run,
        asdict(settings.model),
        None if settings.rewards is None else settings.rewards.labels,
    )
    state, optimizer = State(), None
    if settings.resume:
        check_same(stored, record)
        state, optimizer = load_state(Path(source))
    loaded = load_model(source, recommended, settings.model, seed=settings.run.seed)
    parts = _parts(settings, loaded)
    if optimizer is not None:
        parts.load_state(optimizer)
        parts.policy.version = state.version
    return Training(settings, record, parts, state, claimed(settings.out, resume=settings.resume))


def claimed(out: Path, *, resume: bool) -> int:
    """Make a directory and lock it for as long as this process lives.

    Returns:
        The descriptor that holds the lock.

    Raises:
        ValueError: the directory cannot be made, or another process is writing a run in it.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        held = os.open(out, os.O_RDONLY)
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ValueError(f"--out {out}: another process is writing a run in it") from None
    except OSError as cause:
        raise ValueError(f"--out {out}: it cannot be made or locked: {cause}") from cause
    check_out(out, resume=resume)  # it may have been filled while the model was being made
    return held


def carried_out(training: Training, show: Show, watch: Watch = unwatched) -> None:
    """Run it to its end, and give its directory back."""
    settings = training.settings
    try:
        write_manifest(settings.out, training.record, settings.arguments)
        ports = _ports(settings, training.parts, training.state, show, watch)
        asyncio.run(_trained(settings, training.state, ports))
    finally:
        os.close(training.lock)


def _run(training: Training) -> int:
    settings = training.settings
    panel = carried_out_shown(training)
    if settings.as_json:
        last = checkpoints(settings.out / "checkpoints")[-1]
        panel.tell("end", {"out": str(settings.out), "checkpoint": str(last)})
    else:
        summary(settings, panel)
    return 0


def _panel(settings: Settings) -> Panel:
    return Panel(
        _title(settings),
        settings.run,
        quiet=settings.quiet,
        turn_limit=settings.environment.turn_limit,
        as_json=settings.as_json,
    )


def carried_out_shown(training: Training) -> Panel:
    """Run it to its end while a panel shows how far it is; the panel as it stood last."""
    settings = training.settings
    if not (settings.quiet or settings.as_json):
        print(f"run directory: {settings.out}", file=sys.stderr)
        if training.parts.renderer.keeps_what_the_template_rewrites:
            print(_rewritten(training.parts.loaded), file=sys.stderr)
    with _panel(settings) as panel:
        if settings.as_json:
            panel.tell("begin", {"out": str(settings.out), **settings.names})
        if training.state.step:
            panel.recall(settings.out / "metrics.jsonl", training.state.step)
        carried_out(training, panel.show, panel.grown)
    return panel


async def _trained(settings: Settings, state: State, ports: Ports) -> None:
    try:
        await train(settings.algorithm, settings.run, state, ports)
    finally:
        await ports.actors.close()


def _title(settings: Settings) -> str:
    return f"{settings.algorithm_name} on {settings.environment_name}, {settings.model_name}"


def check_out(out: Path, *, resume: bool) -> None:
    """Refuse an output directory that is in use or cannot be written, before any work.

    Raises:
        ValueError: it is, or cannot.
    """
    if not resume and out.is_dir() and any(out.iterdir()):
        raise ValueError(
            f"--out {out} is not empty; go on with what is in it (--resume), "
            f"or give another directory (--out)"
        )
    nearest = next(folder for folder in (out, *out.absolute().parents) if folder.exists())
    if not nearest.is_dir():
        raise ValueError(f"--out {out}: a directory is needed, and {nearest} is a file")
    if not os.access(nearest, os.W_OK):
        raise ValueError(f"--out {out}: {nearest} cannot be written")


def _latest(out: Path) -> Path:
    found = checkpoints(out / "checkpoints")
    if not found:
        raise ValueError(f"{out} holds no checkpoint to resume from; start again in another --out")
    return found[-1]


def resolved(settings: Settings, recommended: Recommended) -> Settings:
    """Settings with what was left open taken from the model's recommendation."""
    run, update = settings.run, settings.algorithm.update
    if run.is_open_ended:
        steps = None if recommended.max_env_steps else ITERATIONS
        run = replace(run, steps=steps, max_env_steps=recommended.max_env_steps)
    if run.prompts is None:
        run = replace(run, prompts=recommended.prompts)
    held_out = settings.environment.size("test")
    if run.eval_episodes is None:
        left = max(1, (held_out or recommended.eval_episodes) - run.eval_first)
        run = replace(run, eval_episodes=min(recommended.eval_episodes, left))
    last = run.eval_first + (run.eval_episodes or 1)
    if held_out is not None and last > held_out:
        raise ValueError(
            f"eval_first + eval_episodes: {settings.environment_name} has {held_out} held-out "
            f"tasks, and {last} would be needed"
        )
    if update.learning_rate is None:
        update = replace(update, learning_rate=recommended.learning_rate)
    algorithm: Algorithm = replace(settings.algorithm, update=update)
    return replace(settings, run=run, algorithm=algorithm)


def _parts(settings: Settings, loaded: LoadedModel) -> Parts:
    run, budget = settings.run, settings.run.max_tokens_per_microbatch
    chat, update = loaded.chat, settings.algorithm.update
    critic = critic_of(
        settings.algorithm.critic,
        loaded.model,
        update,
        pad=chat.end_of_turn,
        weight_decay=run.weight_decay,
        max_tokens_per_microbatch=budget,
    )
    return Parts(
        loaded,
        TransformersPolicy(loaded.model, chat.stop_ids, max_tokens_per_microbatch=budget),
        TransformersLearner(
            loaded.model,
            update,
            pad=chat.end_of_turn,
            temperature=run.temperature,
            weight_decay=run.weight_decay,
            max_tokens_per_microbatch=budget,
            keep_reference=settings.algorithm.loss.kl > 0,
            critic=critic if isinstance(critic, SharedCritic) else None,
        ),
        critic,
        Renderer(chat, settings.environment.context),
        loaded.recommended.answer_tokens(settings.environment, settings.model),
    )


def _ports(settings: Settings, parts: Parts, state: State, show: Show, watch: Watch) -> Ports:
    run = settings.run
    environment = Threaded(settings.environment) if run.threaded else settings.environment
    limits = run.limits(parts.policy.max_context_tokens)
    sampling = Sampling(run.temperature, parts.max_new_tokens)
    grower = Grower(
        environment,
        parts.renderer,
        parts.policy,
        sampling,
        limits=limits,
        rewards=settings.rewards,
        watch=watch,
    )

    judge, scribe = partial(succeeded, environment), parts.loaded.scribe
    journal = DiskJournal(settings.out, state, show, scribe, judge, keep_rollouts=run.keep_rollouts)

    async def evaluation() -> Metrics:
        return await evaluate(
            environment,
            parts.renderer,
            parts.policy,
            episodes=run.eval_episodes or 1,
            first=run.eval_first,
            max_new_tokens=parts.max_new_tokens,
            limits=limits,
            watch=journal.archive.evaluated,
        )

    def checkpoint(now: State) -> None:
        save_checkpoint(
            settings.out / "checkpoints",
            now,
            parts.state(),
            parts.loaded.save,
            keep=run.keep_checkpoints,
        )

    return Ports(
        tasks=_tasks(run, settings),
        actors=LocalActors(grower, parts.policy),
        learner=parts.learner,
        journal=journal,
        evaluate=evaluation,
        checkpoint=checkpoint,
        critic=parts.critic,
        gold=lambda task: parts.loaded.chat.said(environment.gold(task)),
    )


def _tasks(run: Run, settings: Settings) -> Callable[[int, int], Sequence[str]]:
    prompts = run.prompts or 1
    number = min(TRAIN_TASKS, settings.environment.size("train") or TRAIN_TASKS)

    def tasks(step: int, page: int) -> Sequence[str]:
        return [
            settings.environment.task("train", derived(run.seed, "task", step, i) % number)
            for i in range(page * prompts, (page + 1) * prompts)
        ]

    return tasks


def _rewritten(loaded: LoadedModel) -> str:
    return (
        f"note: the chat template {' and '.join(loaded.chat.rewriting)}. This run's context "
        "policy, full, shows everything as it was said; --environment.context drop_thinking shows "
        "what the template would. `retrograde doctor --model M` shows the difference."
    )


def summary(settings: Settings, panel: Panel) -> None:
    """Print what came of a run, and what could be done next."""
    text = (settings.out / "metrics.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    first, *_, last = [line for line in [lines[0], *lines] if "eval/success" in line]
    final = checkpoints(settings.out / "checkpoints")[-1]
    table = Table(title=panel.title, title_justify="left")
    table.add_column("held-out success")
    table.add_column("start", justify="right")
    table.add_column("end", justify="right")
    for name, key in (("temperature 1", "eval/success"), ("greedy", "eval/success_greedy")):
        table.add_row(name, f"{first[key]:.3f}", f"{last[key]:.3f}")
    console = Console(file=sys.stdout)
    console.print(table)
    if last["step"] > 0 and last["policy_version"] == 0:
        console.print(
            f"nothing was learned: in {last['step']} iterations no update had the signal it needs "
            f"(min_signal={settings.algorithm.update.min_signal} answers with an advantage other "
            "than 0); try more --prompts, an easier task, or a lower --algorithm.min-signal",
            soft_wrap=True,
        )
    if last.get("completions/clipped_ratio", 0.0) > MOST:
        console.print(complaint(last["completions/clipped_ratio"]), soft_wrap=True)
    evaluated = f"\nnext: retrograde evaluate {final} --environment {settings.environment_name}"
    console.print(
        f"{last['env/steps']:.0f} turns and {last['tokens/generated']:.0f} tokens generated "
        f"in {last['wall_seconds']:.0f} s\n"
        f"checkpoint: {final}{evaluated if settings.arguments else ''}",
        soft_wrap=True,
        highlight=False,
    )

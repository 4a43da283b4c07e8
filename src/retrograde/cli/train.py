"""`retrograde train`: put the parts together and run the loop."""

import asyncio
import fcntl
import gc
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from retrograde.algorithms.algorithm import Algorithm
from retrograde.backends.models import load_model, model_directory
from retrograde.backends.recommended import Recommended
from retrograde.cli.closing import rewritten, summary
from retrograde.cli.notice import notice
from retrograde.cli.panel import Panel
from retrograde.cli.parts import Parts, parts_of
from retrograde.cli.place import check_out
from retrograde.cli.settings import (
    RESUMING,
    Settings,
    environment_settings,
    named_out,
    parse_train,
)
from retrograde.cli.stopping import Stopped, Stopping
from retrograde.data.rows import Row
from retrograde.data.seeds import derived
from retrograde.data.stored import EVALUATIONS
from retrograde.environments.threaded import Threaded
from retrograde.loggers.logger import About
from retrograde.loggers.told import Told
from retrograde.policies.protocol import Sampling
from retrograde.rollouts.grow import Grower
from retrograde.rollouts.progress import Watch, unwatched
from retrograde.trainer.actors import LocalActors
from retrograde.trainer.checkpoint import load_state, newest_sound, save_checkpoint
from retrograde.trainer.evaluation import evaluate, succeeded
from retrograde.trainer.foothold import Foothold
from retrograde.trainer.journal import DiskJournal, Show
from retrograde.trainer.lines import lost, read_lines
from retrograde.trainer.loop import train
from retrograde.trainer.manifest import (
    check_same,
    check_started,
    read_manifest,
    settings_of,
    write_manifest,
)
from retrograde.trainer.not_finite import FOLDER, write_batch
from retrograde.trainer.ports import Metrics, Ports
from retrograde.trainer.run import Run, State

ITERATIONS = 10
"""Length of a run for which neither the user nor the model names one."""
TRAIN_TASKS = 1_000_000
"""Training tasks are drawn from this many."""
STOPPING = (
    "stopping: the iteration under way has 4 seconds to end, or it is dropped; then a checkpoint "
    "is written. Ctrl-C again stops at once."
)


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
    if not gc.get_freeze_count():
        gc.freeze()  # what is imported stays: only what is loaded from here on is looked through
    with _panel(settings) as panel:
        return prepared(settings, panel.progress)


def settings_from(arguments: Sequence[str]) -> Settings:
    """What was asked for; a resumed run repeats its own words first.

    Raises:
        ValueError: bad input; nothing has been written.
    """
    if set(RESUMING) & set(arguments) and not {"-h", "--help"} & set(arguments):
        # Options that belong to the run's own algorithm mean nothing before that is known.
        named = named_out(arguments)
        out = named or parse_train(arguments).out
        if named is None and not (out / "manifest.json").exists():
            raise ValueError(
                f"{out} holds no manifest.json: name the directory of the run to resume: --out DIR"
            )
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
    wanted, stored, anyway = settings.model_name, {}, settings.resume_anyway
    if settings.resume:
        stored = read_manifest(settings.out)["settings"]
        check_same(
            {name: stored.get(name) for name in settings.names}, settings.names, anyway=anyway
        )
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
        notice(check_same(stored, record, anyway=anyway))
        state, optimizer = load_state(Path(source))
        notice(check_started(settings.out, settings.run, state, stored.get("run", {})))
    loaded = load_model(source, recommended, settings.model, seed=settings.run.seed)
    parts = parts_of(settings, loaded)
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
    """Run it to its end, and give its directory back.

    Raises:
        Stopped: a signal came; there is a checkpoint to go on from.
        RunError: it cannot go on: the disk is full, or a loss is not finite.
    """
    settings, state = training.settings, training.state
    foothold, told = Foothold(state), None

    def shown(now: State, doing: str, line: Mapping[str, float] | None) -> None:
        foothold.show(now, doing, line)
        show(now, doing, line)
        if line is not None and told is not None:
            told.log(now.step, line)

    try:
        with Stopping(STOPPING) as stopping:
            write_manifest(settings.out, training.record, settings.arguments)
            about = About(settings.out, settings.out.name, training.record, state.step)
            told = Told(settings.log, about, notice)
            ports = replace(_ports(training, shown, watch), is_stopping=stopping.is_asked)
            try:
                asyncio.run(_trained(settings, state, ports))
            except Stopped as stopped:
                stopping.heeded()
                if foothold.state is not None and not stopped.at_once:
                    ports.checkpoint(foothold.state)
                raise Stopped(stopped.number, _kept(settings.out)) from None
            if stopping.number is not None and not settings.run.is_over(state):
                raise Stopped(stopping.number, _kept(settings.out))
    finally:
        if told is not None:
            told.close()
        os.close(training.lock)


def _kept(out: Path) -> str:
    """What a run that was stopped is told, who could not care less about a traceback."""
    last = newest_sound(out / "checkpoints", notice)
    return f"stopped; kept is {last}\n`retrograde train --resume --out {out}` goes on"


def _run(training: Training) -> int:
    settings = training.settings
    panel = carried_out_shown(training)
    if settings.as_json:
        last = newest_sound(settings.out / "checkpoints", notice)
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
            print(rewritten(training.parts.loaded), file=sys.stderr)
    gc.collect()
    gc.freeze()  # what was loaded stays; looking through it again and again takes a tenth of a run
    with _panel(settings) as panel:
        if settings.as_json:
            panel.tell("begin", {"out": str(settings.out), **settings.names})
        if training.state.step:
            path, step = settings.out / "metrics.jsonl", training.state.step
            lines = [line for line in read_lines(path) if line["step"] <= step]
            evaluated = [line["step"] for line in lines if "eval/success" in line]
            notice(lost(path, range(1, step + 1)))
            notice(lost(settings.out / EVALUATIONS, evaluated))
            panel.go_on(lines)
        carried_out(training, panel.show, panel.grown)
    return panel


async def _trained(settings: Settings, state: State, ports: Ports) -> None:
    asyncio.get_running_loop().set_exception_handler(_unheard)
    try:
        await train(settings.algorithm, settings.run, state, ports)
    finally:
        await ports.actors.close()


def _unheard(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What asyncio says of a task nobody waits for; that a signal broke into it is no news."""
    if not isinstance(context.get("exception"), Stopped):
        loop.default_exception_handler(context)


def _title(settings: Settings) -> str:
    return f"{settings.algorithm_name} on {settings.environment_name}, {settings.model_name}"


def _latest(out: Path) -> Path:
    last = newest_sound(out / "checkpoints", notice)
    if last is None:
        raise ValueError(
            f"{out} holds no sound checkpoint to resume from; start again in another --out"
        )
    return last


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


def _ports(training: Training, show: Show, watch: Watch) -> Ports:
    settings, parts, state = training.settings, training.parts, training.state
    run, loaded = settings.run, training.parts.loaded
    environment = Threaded(settings.environment) if run.threaded else settings.environment
    limits = run.limits(parts.policy.max_context_tokens)
    sampling = Sampling(run.temperature, parts.max_new_tokens, run.cut)
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
        parts.policy.forget()  # so that `retrograde evaluate` finds the same
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
        began, folder = time.monotonic(), settings.out / "checkpoints"
        save_checkpoint(folder, now, parts.state(), loaded.save, keep=run.keep_checkpoints)
        now.saved_at, now.saving_seconds = now.seconds, time.monotonic() - began

    def keep_batch(now: State, rows: Sequence[Row], cause: FloatingPointError) -> Path:
        place = settings.out / FOLDER / f"step-{now.step:06d}"
        about = {"what": str(cause), "iteration": now.step, "policy_version": now.version}
        write_batch(place, rows, parts.learner.score(rows), about, loaded.save, loaded.text)
        return place

    return Ports(
        tasks=_tasks(run, settings),
        actors=LocalActors(grower, parts.policy),
        learner=parts.learner,
        journal=journal,
        evaluate=evaluation,
        checkpoint=checkpoint,
        keep_batch=keep_batch,
        critic=parts.critic,
        gold=lambda task: loaded.chat.said(environment.gold(task)),
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

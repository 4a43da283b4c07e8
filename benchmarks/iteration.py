"""Seconds for 10,000 trained action tokens: GRPO on hop, ours against TRL's GRPOTrainer.

Same weights (the warm-started embedded policy), tasks, rollouts of each task, history shown in
full, most tokens an answer and turns an episode, one optimizer step an iteration, at a rate so low
that neither policy changes. What is timed is all that an iteration takes, its record included, and
no evaluation. Each plays its own draws, so tokens differ a little and are divided by: all that were
sampled and handed to the update count, also those of groups that earned alike and teach nothing,
which TRL runs and we do not. CPU seconds are compared, of one process each, with one thread.

TRL plays through `environment_factory` and transformers' `generate`. The embedded policy's chat
template knows no tools; for TRL it is given a form for calls, which is never rendered, and a
response template that reads whatever is no answer as a call of the only tool. So its contexts are
ours, token by token. A last answer is no call: a reward function scores it, since `get_reward`
would not be told it, and nobody generates another turn after it. TRL's gradient checkpointing is
off and its batch is in one piece, as is best for it.
"""

import argparse
import asyncio
import gc
import json
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import fmean, median

from benchmarks.measure import Figure, main, ratio
from benchmarks.rival import TRL, MissingRivalError, Rival, left_out, measured_here
from retrograde.backends.models import model_directory
from retrograde.cli.train import Training, prepared, settings_from
from retrograde.environments.hop import Hop
from retrograde.policies.protocol import Sampling
from retrograde.rollouts.grow import Grower
from retrograde.trainer.actors import LocalActors
from retrograde.trainer.evaluation import succeeded
from retrograde.trainer.journal import DiskJournal
from retrograde.trainer.loop import train
from retrograde.trainer.ports import Metrics, Ports
from retrograde.trainer.run import State

OURS = "retrograde"
AT_LEAST = 3.0
AMOUNT = 10_000
"""Trained action tokens."""
SIBLINGS = 8
PROMPTS = 32
ITERATIONS, QUICK_ITERATIONS = 3, 1
"""In one repetition."""
LEARNING_RATE = 1e-6
OBSERVATION_ROOM = 64
"""Tokens of an observation and its marks are fewer."""


@dataclass(frozen=True)
class Spent:
    """CPU seconds, and the action tokens that were trained in them."""

    seconds: float
    tokens: int
    turns: int
    earned: float
    """By all rollouts together."""

    @property
    def pace(self) -> float:
        """Seconds for 10,000 tokens."""
        return self.seconds / self.tokens * AMOUNT


@dataclass
class Ours:
    """A training run of ours that goes on by so many iterations when it is told to."""

    training: Training
    tasks: Sequence[str]
    state: State = field(default_factory=State)

    def __post_init__(self) -> None:
        settings, parts = self.training.settings, self.training.parts
        run = settings.run
        grower = Grower(
            settings.environment,
            parts.renderer,
            parts.policy,
            Sampling(run.temperature, parts.max_new_tokens, run.cut),
            limits=run.limits(parts.policy.max_context_tokens),
        )
        self.ports = Ports(
            tasks=self._tasks,
            actors=LocalActors(grower, parts.policy),
            learner=parts.learner,
            journal=DiskJournal(
                settings.out,
                self.state,
                lambda *_: None,
                parts.loaded.scribe,
                partial(succeeded, settings.environment),
                keep_rollouts=run.keep_rollouts,
            ),
            evaluate=_no_evaluation,
            checkpoint=lambda _: None,
        )

    def _tasks(self, step: int, page: int) -> Sequence[str]:
        prompts = self.training.settings.run.prompts or 1
        first = (step + page) * prompts
        return self.tasks[first : first + prompts]

    def go_on(self, iterations: int) -> Spent:
        """So many iterations more."""
        settings, state = self.training.settings, self.state
        run = replace(settings.run, steps=state.step + iterations)
        tokens, turns = state.tokens, state.env_steps
        go = measured_here(lambda: asyncio.run(train(settings.algorithm, run, state, self.ports)))
        seconds = go()
        lines = (settings.out / "metrics.jsonl").read_text().splitlines()[-iterations:]
        figures = [json.loads(line) for line in lines]
        earned = sum(line["reward/mean"] * line["rollouts/grown"] for line in figures)
        return Spent(seconds, state.tokens - tokens, state.env_steps - turns, earned)


async def _no_evaluation() -> Metrics:
    return {}


def figures(spent: Mapping[str, Sequence[Spent]], case: str) -> list[Figure]:
    """TRL's seconds over ours."""
    paces = {name: [one.pace for one in each] for name, each in spent.items()}
    said = "; ".join(
        f"{name}: {median(pace):.2f} s, "
        f"{fmean(one.tokens for one in spent[name]):.0f} tokens "
        f"in {fmean(one.turns for one in spent[name]):.0f} turns that earned "
        f"{fmean(one.earned for one in spent[name]):.0f} a repetition"
        for name, pace in paces.items()
    )
    what = "seconds for 10,000 trained action tokens, TRL over ours"
    found = ratio(paces[TRL.name], paces[OURS])
    return [Figure("iteration", case, what, *found, target=AT_LEAST, note=said)]


def ours(model: str, out: Path, prompts: int, tasks: Sequence[str]) -> Ours:
    """Our run, ready to go."""
    words = [
        "--algorithm", "grpo", "--environment", "hop", "--environment.context", "full",
        "--model", model, "--out", str(out), "--prompts", str(prompts), "--steps", "1",
        "--algorithm.rollouts", str(SIBLINGS), "--algorithm.minibatches", "1",
        "--algorithm.learning-rate", str(LEARNING_RATE), "--algorithm.warmup-steps", "0", "--quiet",
    ]  # fmt: skip
    return Ours(prepared(settings_from(words), lambda *_: None), tasks)


def measured(asked: argparse.Namespace) -> list[Figure]:
    """All of it."""
    iterations = QUICK_ITERATIONS if asked.quick else ITERATIONS
    environment = Hop()
    model, _ = model_directory("embedded", environment, lambda *_: None)
    number = PROMPTS * iterations * (asked.repetitions + 1)
    tasks = [environment.task("train", i) for i in range(number)]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        settings = {
            "model": model,
            "out": str(folder / "trl"),
            "tasks": tasks,
            "prompts": PROMPTS,
            "siblings": SIBLINGS,
            "learning_rate": LEARNING_RATE,
            "completion": environment.turn_limit * (environment.max_new_tokens + OBSERVATION_ROOM),
            "threads": asked.threads,
        }
        try:
            rival = stack.enter_context(Rival(TRL, settings, threads=asked.threads))
        except MissingRivalError as error:
            left_out(str(error))
            return []
        run = ours(model, folder / "retrograde", PROMPTS, tasks)
        gc.collect()
        gc.freeze()  # as `retrograde train` does
        spent: dict[str, list[Spent]] = {OURS: [], TRL.name: []}
        for _ in range(asked.repetitions + 1):
            spent[OURS].append(run.go_on(iterations))
            spent[TRL.name].append(Spent(**rival.asked({"iterations": iterations})))
        warm = {name: each[1:] for name, each in spent.items()}
        return figures(warm, f"embedded, {PROMPTS} prompts x {SIBLINGS}")


if __name__ == "__main__":
    main(__doc__, measured)

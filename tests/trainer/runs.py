"""Runs in this process: real growth and real models, between ports that can be looked at."""

import copy
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache

from tests.rollouts.worlds import Watched, chat, graded, grower

from retrograde.algorithms.algorithm import Algorithm
from retrograde.backends.critic import SharedCritic, TransformersCritic, critic_of
from retrograde.backends.embedded import WarmStart, warm_started
from retrograde.backends.learner import TransformersLearner
from retrograde.backends.sampler import TransformersPolicy
from retrograde.data.rows import Row
from retrograde.data.tree import Group
from retrograde.environments.hop import Hop
from retrograde.environments.lake import Lake
from retrograde.trainer.actors import LocalActors
from retrograde.trainer.loop import train
from retrograde.trainer.ports import Ports
from retrograde.trainer.run import Run, State

HOP = Hop(hops=2)
TURNS = 3


@lru_cache(maxsize=1)
def taught_hop():
    """A model that knows the form of an answer, thoughts and all, and little else."""
    lessons = WarmStart(steps=30, batch=32, warmup_steps=4, learning_rate=1e-2)
    model, _ = warm_started(HOP, lessons, lambda *_: None)
    return model


@lru_cache(maxsize=1)
def taught_lake():
    """A model that walks about, and to the goal now and then."""
    lessons = WarmStart(steps=14, batch=64, warmup_steps=4, learning_rate=1e-2, flat_every=0)
    model, tokenizer = warm_started(Lake(), lessons, lambda *_: None)
    return model, tokenizer


def graded_hop(**options) -> Watched:
    """`hop`, but every turn has a reward of its own, so that siblings differ."""
    return Watched(Hop(hops=2, **options), turned=graded)


@dataclass
class Notes:
    """A journal that can be read."""

    updates: list[dict[str, float]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    log: list[str] = field(default_factory=list)
    judgements: list[tuple[list[Row], bool]] = field(default_factory=list)
    """The rows of each update, and whether it was made."""
    grown: list[list[Group]] = field(default_factory=list)
    """The groups of each iteration."""
    evaluations: list[tuple[int, dict | None]] = field(default_factory=list)

    def doing(self, what: str) -> None:
        self.log.append(what)

    def add(self, metrics) -> None:
        self.updates.append(dict(metrics))

    def count(self, name: str, number: float = 1) -> None:
        self.counts[name] += number

    def wanted(self, rows):
        return []

    def judged(self, rows, after) -> None:
        self.judgements.append((list(rows), after is not None))

    def close_step(self, state: State, groups, evaluation) -> None:
        self.grown.append(list(groups))
        self.evaluations.append((state.step, evaluation))

    def seen(self, name: str) -> list[float]:
        """Every value of a figure, in order."""
        return [figures[name] for figures in self.updates if name in figures]


@dataclass
class Calls:
    """Everything the loop asked for, in order."""

    log: list[str] = field(default_factory=list)
    batches: list[list[Row]] = field(default_factory=list)


class LoggedActors(LocalActors):
    """Actors whose calls are logged."""

    def __init__(self, calls: Calls, growing, policy) -> None:
        super().__init__(growing, policy)
        self.calls = calls

    async def grow(self, groups, forks, grown_in, seed):
        self.calls.log.append("grow")
        return await super().grow(groups, forks, grown_in, seed)

    async def load(self, weights, version):
        self.calls.log.append("load")
        await super().load(weights, version)


class LoggedLearner:
    """Another learner whose calls are logged, with the rows it was given."""

    def __init__(self, calls: Calls, inner) -> None:
        self.calls = calls
        self.inner = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def step(self, rows, loss):
        self.calls.log.append("step")
        self.calls.batches.append(list(rows))
        return self.inner.step(rows, loss)

    def recomputed(self, rows):
        self.calls.log.append("recompute")
        return self.inner.recomputed(rows)


@dataclass
class Ran:
    """A run that is over."""

    notes: Notes
    calls: Calls
    state: State
    policy: TransformersPolicy
    learner: TransformersLearner
    critic: SharedCritic | TransformersCritic | None = None

    def groups(self, iteration: int = -1) -> list[Group]:
        return self.notes.grown[iteration]


async def ran(
    algorithm: Algorithm,
    *,
    world=None,
    model=None,
    prompts: int = 3,
    steps: int = 1,
    actors: type[LoggedActors] = LoggedActors,
    temperature: float = 1.0,
) -> Ran:
    """Train for some iterations on a copy of a model."""
    calls, notes, state = Calls(), Notes(), State()
    world = world or graded_hop()
    model = copy.deepcopy(model or taught_hop())
    policy = TransformersPolicy(model, chat().stop_ids)
    end = chat().end_of_turn
    critic = critic_of(algorithm.critic, model, algorithm.update, pad=end)
    learner = TransformersLearner(
        model,
        algorithm.update,
        pad=end,
        temperature=temperature,
        keep_reference=algorithm.loss.kl > 0,
        critic=critic if isinstance(critic, SharedCritic) else None,
    )
    growing = grower(world, policy, temperature=temperature)

    async def evaluate():
        return {"eval/success": 0.0}

    ports = Ports(
        tasks=lambda step, page: [
            f"train-{step * prompts + i + page * 1000}" for i in range(prompts)
        ],
        actors=actors(calls, growing, policy),
        learner=LoggedLearner(calls, learner),
        journal=notes,
        evaluate=evaluate,
        checkpoint=lambda state: calls.log.append(f"save {state.step}"),
        critic=critic,
    )
    await train(algorithm, Run(steps=steps, temperature=temperature), state, ports)
    await growing.forget()
    return Ran(notes, calls, state, policy, learner, critic)

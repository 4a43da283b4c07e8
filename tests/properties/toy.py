"""A world that offers everything and breaks now and then, a policy that says anything, and what
any algorithm makes of them: groups grown by its own plan, judged by its own credit.
"""

import asyncio
import random
from dataclasses import dataclass, replace
from functools import lru_cache

from tests.rollouts.worlds import Watched, chat

from retrograde.algorithms.algorithm import Algorithm
from retrograde.algorithms.registry import ALGORITHMS
from retrograde.data.evidence import Evidence
from retrograde.data.message import Message
from retrograde.data.offer import Offer
from retrograde.data.rows import Row, rows_of
from retrograde.data.seeds import derived
from retrograde.data.tree import ROOT_PARENT, End, Group, Tree, Turn
from retrograde.environments.protocol import Forking, Observation
from retrograde.losses.policy import Level
from retrograde.policies.protocol import Answer, Sampling
from retrograde.rendering.history import Renderer
from retrograde.rollouts.grow import Grower
from retrograde.rollouts.plans import Moment

TURNS = 4
WORDS = ("ice", "north", "go", "answer", "friend", "hole")
ENDS = (End.FINISHED, End.TRUNCATED, End.STOPPED)
"""Ends of rollouts that count."""


@dataclass
class ToyEpisode:
    """What happens depends on the words said so far, and on nothing else."""

    task: str
    world: "Toy"
    said: tuple[str, ...] = ()

    def opening(self):
        return (Message("user", f"{self.task} north"),)

    async def act(self, text):
        self.said = (*self.said, text)
        chance = random.Random(derived("toy", self.task, *self.said))
        if chance.random() < self.world.breaks:
            raise OSError("no connection")
        if chance.random() < self.world.breaks / 2:
            return Observation((), reward=float("nan"), end=End.FINISHED, score=0.0)
        over = len(self.said) == TURNS or chance.random() < 0.2
        score = chance.choice((0.0, 0.25, 0.5, 0.75, 1.0))
        reward = 0.0
        if over:
            reward = 1.0 if score == 1 else 0.5 * (score > 0.5)
        if self.world.graded:
            reward += chance.choice((0.0, 0.25, 0.5))
        told = () if over else (Message("user", chance.choice(("hole", "ice", "goal"))),)
        return Observation(told, reward, chance.choice(ENDS[:2]) if over else None, score)

    def fork(self, seed):
        self.world.lose("fork", seed)
        return replace(self)

    def state_key(self):
        return len(self.said), self.said[-1:]

    async def close(self):
        pass


@dataclass(frozen=True)
class Toy:
    """Four turns at the most."""

    breaks: float = 0.05
    """How often a turn breaks; half as often it pays a reward that is no number."""
    graded: bool = False
    """Whether every turn pays, not only the last."""
    lost: float = 0.0
    """How often an episode cannot be opened or copied."""

    name = "toy"
    forking = Forking.FORK
    turn_limit = TURNS
    success_return = 1.0
    max_new_tokens = 6
    offers = frozenset(Offer)
    context = "full"

    async def open(self, task, seed):
        self.lose("open", seed)
        return ToyEpisode(task, self)

    def lose(self, what, seed):
        if random.Random(derived("lost", what, seed)).random() < self.lost:
            raise ConnectionError(f"cannot {what}")


class Babbler:
    """Says some words; now and then, if it may, no token at all."""

    version = 0

    def __init__(self, silence):
        self.silence = silence

    async def sample(self, contexts, sampling, seed):
        return [self._answer(random.Random(derived(seed, i))) for i in range(len(contexts))]

    def _answer(self, chance):
        if chance.random() < self.silence:
            return Answer((), (), stopped=False)
        words = " ".join(chance.choices(WORDS, k=chance.randint(1, 3)))
        ids = (*chat().tokenizer.encode(words, add_special_tokens=False), chat().end_of_turn)
        logp = tuple(-chance.uniform(0.01, 3.0) for _ in ids)
        entropies = tuple(chance.uniform(0.0, 2.0) for _ in ids)
        return Answer(ids, logp, stopped=True, entropies=entropies)


async def _grown(algorithm, world, silence, seed, tasks):
    watched = Watched(world)
    sampling = Sampling(1.0, world.max_new_tokens)
    grower = Grower(watched, Renderer(chat(), "full"), Babbler(silence), sampling)
    groups = [Group(f"train-{i}") for i in range(tasks)]
    for done in range(60):
        forks = algorithm.grow(groups, done, Moment(tasks, derived(seed, "plan", done)))
        if not any(forks):
            break
        groups += [Group(f"train-{i}") for i in range(len(groups), len(forks))]
        groups = await grower.grow(groups, forks, done, seed)
    else:
        raise AssertionError("the plan still grows after 60 rounds")
    await grower.forget()
    watched.book.check()
    return tuple(groups)


@lru_cache(maxsize=512)
def grown(name, seed, *, breaks=0.05, tasks=2, lost=0.0) -> tuple[Group, ...]:
    """Groups that a method's plan grew in the toy world."""
    algorithm = ALGORITHMS[name]()
    world = Toy(breaks, Offer.TURN_REWARDS in algorithm.needs, lost)
    return asyncio.run(_grown(algorithm, world, breaks / 2, seed, tasks))


def evidence_on(algorithm: Algorithm, group: Group) -> Evidence:
    """What models would say, made up from what they would be shown."""
    gold, values = {}, {}
    for t, tree in enumerate(group.trees):
        for i, turn in enumerate(tree.turns):
            chance = random.Random(derived("evidence", *tree.context(i), *turn.action))
            of_context = random.Random(derived("gold", *tree.context(i)))
            gold[t, i] = -of_context.uniform(0.1, 3.0)
            if algorithm.critic is not None:
                each = 1 if algorithm.critic.level is Level.TURN else len(turn.action)
                values[t, i] = tuple(chance.random() for _ in range(each))
    return Evidence(values, gold, 0.5)


def updates(algorithm: Algorithm, groups, known=None) -> list[list[Row]]:
    """The rows of each update that a method makes of groups that are grown."""
    known = known or [evidence_on(algorithm, group) for group in groups]
    turns = [turn for group in groups for tree in group.trees for turn in tree.turns]
    rounds = 1 + max((turn.grown_in for turn in turns), default=-1)
    found = []
    for done in range(rounds) if algorithm.update.every_round else [rounds]:
        judged = [algorithm.credit(g, done, e) for g, e in zip(groups, known, strict=True)]
        for group, judgements in zip(groups, judged, strict=True):
            assert len(judgements) == len(group.trees)
        rows = rows_of(groups, judged, algorithm.view)
        if rows and algorithm.normalise is not None:
            rows = algorithm.normalise(rows)
        found.append(rows)
    return found


def advantages(algorithm: Algorithm, groups, known=None) -> dict:
    """Advantages of action tokens, by update, rollout and turn."""
    return {
        (number, row.rollout, row.turn): row.advantages
        for number, rows in enumerate(updates(algorithm, groups, known))
        for row in rows
    }


def changed(groups, change) -> tuple[Group, ...]:
    """Groups with every turn changed; `change` takes group, tree and turn numbers and the turn."""
    return tuple(
        Group(
            group.task,
            tuple(
                Tree(tuple(change((g, t, i), turn) for i, turn in enumerate(tree.turns)))
                for t, tree in enumerate(group.trees)
            ),
        )
        for g, group in enumerate(groups)
    )


def chains(outcomes, seed=0, *, turns=3, tokens=2) -> Group:
    """Rollouts that do not branch, of equal length, with these outcomes."""
    chance = random.Random(seed)

    def turn(i, outcome):
        last = i == turns - 1
        return Turn(
            parent=i - 1 if i else ROOT_PARENT,
            shared=0,
            fresh=(9, i),
            observation=(9, i),
            action=tuple(chance.randrange(20) for _ in range(tokens)),
            logprobs=tuple(-chance.random() for _ in range(tokens)),
            grown_in=0,
            policy_version=0,
            reward=outcome if last else 0.0,
            end=End.FINISHED if last else None,
            score=outcome if last else 0.0,
            entropies=tuple(chance.random() for _ in range(tokens)),
        )

    return Group("t", tuple(Tree(tuple(turn(i, o) for i in range(turns))) for o in outcomes))

"""What an algorithm's first update is in expectation, beside the exact policy gradient.

Plan, credit, rows, normalisation, weights and loss are the library's; the growing is that of
`nursery`. The loss is differentiated where the policy is the one that acted, so every ratio is 1
and no bound is active: what is measured is the estimator, not the trust region.

Shapes: K turns, S states, N nodes of a word, L letters, D parameters, U updates, T tokens.
"""

import math
from collections import Counter, deque
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, islice
from statistics import fmean
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from retrograde.algorithms.algorithm import Algorithm
from retrograde.algorithms.options import options_of
from retrograde.algorithms.registry import ALGORITHMS
from retrograde.data.batch import ActionTokens
from retrograde.data.evidence import NO_EVIDENCE, Evidence
from retrograde.data.rows import Judgement, Row, rows_of
from retrograde.data.tree import Group
from retrograde.losses.policy import Level
from retrograde.rollouts.plans import Chains, longest_trunk

from .chances import Draw, at_random, estimated_outcomes, every_outcome
from .growth import chain, exact_tokens
from .mdp import (
    STATE,
    Policy,
    Words,
    World,
    draws,
    full_gradient,
    one_letter_words,
    random_world,
    rollouts,
    turn_tables,
)
from .nursery import Nursery, Teller

MOST_OUTCOMES = 110_000
"""Up to so many, outcomes are enumerated; beyond, they are drawn."""
RUNS = 20_000
"""Iterations that are drawn where there are too many to enumerate."""
SEEDS = 16
"""Plans that draw lots are given one of so many seeds."""


@dataclass(frozen=True)
class Setting:
    """A world with a single opening, and a policy that acts in it."""

    name: str
    world: World
    policy: Policy
    theta_D: Tensor

    @property
    def exact_gradient(self) -> Tensor:
        """The gradient of the expected return."""
        return full_gradient(self.world, self.policy, self.theta_D)


def setting(name: str, world: World, words: Words | None = None) -> Setting:
    """A table for each turn, drawn at random."""
    policy = turn_tables(world.shape, words or one_letter_words(world.shape[2]))
    return Setting(name, world, policy, policy.random(1))


class Batches(NamedTuple):
    """Rows of one iteration, those of each optimizer step together, and what they cost."""

    rows: list[list[Row]]
    turns: int


@dataclass
class _Moment:
    """A plan's moment; its seed is drawn when the plan looks at it, and not before."""

    prompts: int
    draw: Draw
    turns_left: int | None = None
    drawn: int | None = None

    @property
    def seed(self) -> int:
        """One of a few."""
        if self.drawn is None:
            self.drawn = self.draw((1.0,) * SEEDS)
        return self.drawn


@dataclass
class Trial:
    """An algorithm in a setting."""

    algorithm: Algorithm
    setting: Setting
    blind: bool = False
    """Whether the critic says 0 everywhere, not the exact value."""
    prompts: int = 1
    """Groups of an update; all of the same task."""
    actor: Teller = field(init=False)
    judged: dict[Hashable, list[list[Row]]] = field(default_factory=dict)
    """What was learned after a round from trees that were met before."""

    def __post_init__(self) -> None:
        s, every_round = self.setting, self.algorithm.update.every_round
        self.actor = Teller(s.world, s.policy, s.theta_D, one_version=not every_round)

    def iteration(self, draw: Draw) -> Batches:
        """One iteration, as the training loop runs it, with a learning rate of next to nothing."""
        recent: deque[list[Row]] = deque()
        if self.algorithm.update.replay:
            self._sweep(draw, recent)  # rows of the iteration before are trained again
        return self._sweep(draw, recent)

    def _sweep(self, draw: Draw, recent: deque[list[Row]]) -> Batches:
        algorithm, nursery = self.algorithm, Nursery(self.actor, draw)
        groups = [Group("world")] * self.prompts
        steps: list[list[Row]] = []
        for grown_in in count():
            forks = algorithm.grow(groups, grown_in, _Moment(self.prompts, draw))
            groups = groups + [Group("world")] * (len(forks) - len(groups))
            growing = any(forks)
            if growing:
                groups = nursery.grow(groups, forks, grown_in)
            if algorithm.update.every_round or not growing:
                steps += self._remembered(groups, grown_in, recent)
            if not growing:
                return Batches(steps, nursery.generated)
        raise AssertionError("an iteration ends")

    def _remembered(
        self, groups: Sequence[Group], grown_in: int, recent: deque[list[Row]]
    ) -> list[list[Row]]:
        if self.algorithm.update.replay:
            return self._learned(groups, grown_in, recent)
        key = (grown_in, *(tuple(map(id, group.trees)) for group in groups))
        if key not in self.judged:
            self.judged[key] = self._learned(groups, grown_in, recent)
        return self.judged[key]

    def _learned(
        self, groups: Sequence[Group], grown_in: int, recent: deque[list[Row]]
    ) -> list[list[Row]]:
        algorithm, update = self.algorithm, self.algorithm.update
        judged = [algorithm.credit(group, grown_in, self._evidence(group)) for group in groups]
        rows = rows_of(groups, judged, algorithm.view)
        if not rows:
            return []
        if algorithm.normalise is not None:
            rows = algorithm.normalise(rows)
        if update.replay:
            recent.append(rows)
            while len(recent) > longest_trunk(groups):
                recent.popleft()
            rows = [row for kept in recent for row in kept]
        return update.stages(rows) if update.has_signal(rows) else []

    def _evidence(self, group: Group) -> Evidence:
        critic = getattr(self.algorithm, "critic", None)
        level = Level.TOKEN if critic is None else critic.level
        return self.actor.evidence(group, level, blind=self.blind)

    def groups_of_chains(self, size: int) -> Iterator[tuple[float, Batches]]:
        """Every group of unbranched rollouts, up to their order, which matters to nobody."""
        found = [(p, chain_of(self.actor, path)) for p, path in self._paths()]
        for probability, trees in draws(found, size):
            turns = sum(len(tree.turns) for tree in trees)
            steps = self._learned([Group("world", tuple(trees))], 0, deque())
            yield probability, Batches(steps, turns)

    def _paths(self):
        return rollouts(self.setting.world, self.actor.choice)


def chain_of(actor: Teller, path):
    """A rollout that does not branch, as the nursery would have told it."""
    turns = [actor.told(step, i, i - 1, 0) for i, step in enumerate(path)]
    assert len(turns) == len(chain(actor, path).turns)
    return actor.tree(turns)


class Estimate(NamedTuple):
    """What an estimator gives, beside the exact gradient."""

    mean_D: Tensor
    exact_D: Tensor
    variance: float
    """Trace of the covariance of one update."""
    turns: float
    """Turns generated for one update, in expectation."""
    runs: int | None
    """Updates that were drawn; None if all were enumerated."""

    @property
    def scale(self) -> float:
        """The multiple of the exact gradient that comes nearest."""
        return float(self.mean_D @ self.exact_D / (self.exact_D @ self.exact_D))

    @property
    def cosine(self) -> float:
        """Of the angle between expectation and exact gradient."""
        lengths = self.mean_D.norm() * self.exact_D.norm()
        return float(self.mean_D @ self.exact_D / lengths)

    @property
    def bias(self) -> float:
        """|E g / scale - grad J| / |grad J|."""
        return float((self.mean_D / self.scale - self.exact_D).norm() / self.exact_D.norm())

    @property
    def noise(self) -> float:
        """Variance of g / scale over |grad J|^2, of a mean over 1000 generated turns' updates."""
        unit = self.scale**2 * float(self.exact_D @ self.exact_D)
        return self.variance / unit * self.turns / 1000

    @property
    def error(self) -> float:
        """Standard error of `mean_D / scale`, relative to |grad J|; 0 if all was enumerated."""
        if self.runs is None:
            return 0.0
        return math.sqrt(self.variance / self.runs) / abs(self.scale) / float(self.exact_D.norm())


def estimated(trial: Trial, *, most: int = MOST_OUTCOMES, runs: int = RUNS) -> Estimate:
    """The expectation and the variance of an algorithm's update."""
    grow = trial.algorithm.grow
    gradients = Gradients(trial)
    drawn = None
    outcomes: Iterator[tuple[float, Batches]]
    if isinstance(grow, Chains) and trial.prompts == 1 and not trial.algorithm.update.replay:
        outcomes = trial.groups_of_chains(grow.rollouts)
    elif (every := few_outcomes(trial, most)) is not None:
        outcomes = iter(every)
    else:
        drawn = runs
        tally: Counter[int] = Counter()
        kept: dict[int, Batches] = {}
        for batches in at_random(trial.iteration, runs, seed=1):
            tally[id(batches)] += 1
            kept[id(batches)] = batches
        outcomes = ((number / runs, kept[key]) for key, number in tally.items())
    chance: list[float] = []
    turns: list[int] = []
    for probability, batches in outcomes:
        chance.append(probability)
        turns.append(batches.turns)
        gradients.add(batches)
    chance_U = torch.tensor(chance, dtype=torch.float64)
    torch.testing.assert_close(float(chance_U.sum()), 1.0)
    gradient_UD = gradients.taken()
    mean_D = chance_U @ gradient_UD
    variance = chance_U @ (gradient_UD - mean_D).square().sum(-1)
    cost = float(chance_U @ torch.tensor(turns, dtype=torch.float64))
    return Estimate(mean_D, trial.setting.exact_gradient, float(variance), cost, drawn)


def few_outcomes(trial: Trial, most: int) -> list[tuple[float, Batches]] | None:
    """Every outcome of an iteration, unless there are too many."""
    if estimated_outcomes(trial.iteration) > most:
        return None
    found = list(islice(every_outcome(trial.iteration), 2 * most + 1))
    return found if len(found) <= 2 * most else None


class Gradients:
    """Gradients of many updates; an optimizer step that was met before is not taken again."""

    def __init__(self, trial: Trial, at_once: int = 20_000) -> None:
        self.loss = trial.algorithm.loss
        self.policy = trial.setting.policy
        self.at_once = at_once
        self.slope_KSNLD = slopes(trial.setting)
        self.numbers: dict[int, int] = {}
        self.held: list[list[list[Row]]] = []  # so that no id is given twice
        self.steps: list[tuple[int, int]] = []
        self.waiting: list[list[Row]] = []
        self.layouts: dict[Hashable, Tensor] = {}
        self.parts: list[Tensor] = []
        self.updates = 0

    def add(self, batches: Batches) -> None:
        """One more update; the gradients of its optimizer steps are added up."""
        self.held.append(batches.rows)
        for rows in batches.rows:
            if id(rows) not in self.numbers:
                self.numbers[id(rows)] = len(self.numbers)
                self.waiting.append(rows)
            self.steps.append((self.updates, self.numbers[id(rows)]))
        self.updates += 1
        if sum(map(len, self.waiting[-1:])) * len(self.waiting) >= self.at_once:
            self._take()

    def taken(self) -> Tensor:
        """What each update adds to the parameters per unit of learning rate: U D."""
        self._take()
        found_UD = torch.zeros(self.updates, self.slope_KSNLD.shape[-1], dtype=torch.float64)
        if self.steps:
            update, step = torch.tensor(self.steps).T
            found_UD.index_add_(0, update, torch.cat(self.parts)[step])
        return found_UD

    def _take(self) -> None:
        if not self.waiting:
            return
        rows = [row for step in self.waiting for row in step]
        number = [i for i, step in enumerate(self.waiting) for row in step for _ in row.action]
        tokens = exact_tokens(rows)
        logp_T = tokens.behaviour_logp.clone().requires_grad_()
        self.loss(logp_T, tokens, torch.cat([*map(self._weights, self.waiting)])).backward()
        assert logp_T.grad is not None
        slope_TD = self.slope_KSNLD[where(self.policy, rows)]
        found = torch.zeros(len(self.waiting), slope_TD.shape[-1], dtype=torch.float64)
        found.index_add_(0, torch.tensor(number), -logp_T.grad.unsqueeze(1) * slope_TD)
        self.parts.append(found)
        self.waiting = []

    def _weights(self, rows: Sequence[Row]) -> Tensor:
        layout = tuple((len(row.action), row.rollout) for row in rows)
        if layout not in self.layouts:
            self.layouts[layout] = self.loss.weights(ActionTokens.of(rows))
        return self.layouts[layout]


def where(policy: Policy, rows: Sequence[Row]) -> tuple[Tensor, ...]:
    """Turn, state, node and letter of each action token."""
    places = [
        (row.turn, row.context[-1] - STATE, policy.nodes[row.action[:i]], row.action[i])
        for row in rows
        for i in range(len(row.action))
    ]
    return tuple(torch.tensor(places).T)


def slopes(s: Setting) -> Tensor:
    """Gradient of the log-probability of each letter: K S N L D."""
    features_KSNLD = s.policy.features_KSNLD
    chance_KSNL = s.policy.letters(s.theta_D).exp()
    mean_KSND = (chance_KSNL.unsqueeze(-1) * features_KSNLD).sum(-2)
    return features_KSNLD - mean_KSND.unsqueeze(-2)


SMALL: Mapping[str, Any] = {
    "rollouts": 4, "siblings": 2, "continuations": 0, "chains": 2, "branches": 1, "expansions": 1,
    "trees": 2, "nodes": 1, "keep": 2, "width": 4, "first_most": 2, "selected": 1,
    "alternatives": 2, "initial": 2, "entropy_scale": 0.7,
}  # fmt: skip
"""Options that are made small where a method has them, so that its outcomes can be counted."""
OWN: Mapping[str, Mapping[str, Any]] = {
    "dapo": {"max_batches": 2},
    "leap": {"least_failing": 1, "most_failing": 4},
    "patr": {"branches": 3, "every": 1, "expand": 1},
    "treerl": {"answers": 1},
}
"""What else has to be smaller than a method's defaults, by method."""


@dataclass(frozen=True)
class AtIndex:
    """A control: what turns of the same index are worth, less its mean over the rollouts there.

    With "return" it is what a rollout earns from a turn on. With "rewards" each turn's reward
    stands among its index's, and what stands from a turn on is added up: a rollout that goes on
    has more terms.
    """

    what: Literal["return", "rewards"] = "return"

    def __call__(
        self, group: Group, grown_in: int, evidence: Evidence = NO_EVIDENCE
    ) -> list[Judgement]:
        """One judgement for each tree, which does not branch."""
        del grown_in, evidence
        earned = [[turn.reward for turn in tree.turns] for tree in group.trees]
        ahead = [[sum(rewards[k:]) for k in range(len(rewards))] for rewards in earned]
        told = ahead if self.what == "return" else earned
        level = [fmean(own[k] for own in told if k < len(own)) for k in range(max(map(len, told)))]
        above = [[value - level[k] for k, value in enumerate(own)] for own in told]
        if self.what == "rewards":
            above = [[sum(own[k:]) for k in range(len(own))] for own in above]
        return [Judgement(tuple(own), (True,) * len(own)) for own in above]


def small(name: str, **options: Any) -> Algorithm:
    """A registered algorithm with few rollouts, whose update is one pass in one step."""
    method = ALGORITHMS[name]
    known = options_of(method)
    chosen = {**SMALL, **OWN.get(name, {}), **options}
    algorithm = method(**{key: value for key, value in chosen.items() if key in known})
    update = replace(algorithm.update, epochs=1, minibatches=1, min_signal=1)
    return replace(algorithm, update=update)


def settings() -> tuple[Setting, ...]:
    """The worlds of the page.

    Their seeds are ones for which each turn has a share in the gradient and what is done leads
    to different states.
    """
    steady = random_world(242, (3, 2, 2), noisy=False, bonus=True)
    stopping = random_world(927, (3, 2, 2), stops=True, bonus=True)
    wordy = random_world(542, (2, 2, 3), noisy=False, bonus=True)
    return (
        setting("steady", _opened(steady)),
        setting("stopping", _settled(_opened(stopping))),
        setting("wordy", _opened(wordy), ((0,), (1, 0), (1, 1))),
    )


def _opened(world: World) -> World:
    """Rollouts of one task begin alike."""
    start_S = torch.zeros_like(world.start_S)
    start_S[0] = 1.0
    return replace(world, start_S=start_S)


def _settled(world: World) -> World:
    """Whether a rollout that ends has won is left to nobody; where it goes on to, to chance."""
    chance_KSAO = world.chance_KSAO.clone()
    chance_KSAO[..., -2:] = chance_KSAO[..., -2:].round()
    return replace(world, chance_KSAO=chance_KSAO)

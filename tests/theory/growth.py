"""Every tree the library could have grown in a small world, and exact expectations over them.

The trees are the library's own (`Tree`, `Turn`, `Fork`, `merged`), and so is everything that
is done to them: credit, rows, tokens and loss. What is written here only enumerates chance.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor

from retrograde.credit.protocol import Credit
from retrograde.data.batch import ActionTokens
from retrograde.data.rows import Row, View, rows_of
from retrograde.data.tree import ROOT_PARENT, End, Group, Tree, Turn
from retrograde.losses.policy import PolicyLoss
from retrograde.rollouts.merge import merged
from retrograde.rollouts.plans import Fork

from .mdp import (
    STATE,
    Path,
    Policy,
    Step,
    Table,
    World,
    alike,
    draws,
    earned,
    paths,
    rollouts,
)

Grown = tuple[float, list[Group]]
"""What an iteration has grown, with its probability."""


class Sibling(NamedTuple):
    """A fresh answer to a boundary, and what became of it."""

    step: Step
    end: End | None
    into: int | None
    """Number of the sibling it was merged into."""
    continuations: list[Path]


@dataclass
class Actor:
    """A policy with fixed parameters, in the form that enumeration needs."""

    world: World
    policy: Policy
    theta_D: Tensor
    choice: Table = field(init=False)
    letters: list[list[list[list[float]]]] = field(init=False)

    def __post_init__(self) -> None:
        self.choice = self.policy.actions(self.theta_D).exp().tolist()
        self.letters = self.policy.letters(self.theta_D).tolist()

    def turn(
        self,
        step: Step,
        *,
        index: int,
        parent: int,
        grown_in: int,
        end: End | None = None,
        into: int | None = None,
    ) -> Turn:
        """A step as a turn of a tree, with the log-probabilities it was sampled with."""
        policy, word = self.policy, self.policy.words[step.action]
        here = self.letters[index][step.state]
        ended = End.FINISHED if step.onwards is None else None
        return Turn(
            parent=parent,
            shared=0,
            fresh=(STATE + step.state,),
            observation=(STATE + step.state,),
            action=word,
            logprobs=tuple(here[policy.nodes[word[:i]]][word[i]] for i in range(len(word))),
            grown_in=grown_in,
            policy_version=grown_in,
            reward=step.reward,
            end=end or ended,
            merged_into=into,
        )

    def extend(self, turns: list[Turn], path: Path, parent: int, index: int, grown_in: int) -> None:
        """Append a path behind a turn."""
        for i, step in enumerate(path):
            turns.append(self.turn(step, index=index + i, parent=parent, grown_in=grown_in))
            parent = len(turns) - 1


def chain(actor: Actor, path: Path) -> Tree:
    """A rollout that does not branch."""
    turns: list[Turn] = []
    actor.extend(turns, path, ROOT_PARENT, 0, 0)
    return Tree(tuple(turns))


def trunk_kinds(actor: Actor, turn: int) -> list[tuple[float, Path]]:
    """Every first attempt that has the turn, up to what credit can see of it.

    That is where it stood at the turn, what it did there, and what it earned before and after.
    """
    reaching = ((p, path) for p, path in rollouts(actor.world, actor.choice) if len(path) > turn)
    return alike(
        reaching,
        lambda path: (
            path[turn].state,
            path[turn].action,
            round(earned(path[:turn]), 12),
            round(earned(path[turn:]), 12),
        ),
    )


@dataclass(frozen=True)
class _Walk:
    fork: Fork
    fork_number: int


@dataclass(frozen=True)
class _Draft:
    """What merging looks at of an answer."""

    walk: _Walk
    end: End | None
    context: tuple[int, ...]
    state: Hashable


def siblings(
    actor: Actor,
    fork: Fork,
    turn: int,
    state: int,
    state_key: Callable[[int], Hashable] = lambda state: state,
    *,
    all_paths: bool = False,
) -> Iterator[tuple[float, list[Sibling]]]:
    """Everything that a fork at a state can grow, with its probability.

    Args:
        actor: who answers and continues.
        fork: how many answers, and whether they are merged.
        turn: index of the turn that is answered afresh.
        state: the state it is answered in.
        state_key: what an environment says to tell states apart. What the policy is shown
            is this key as well, so a coarse one hides states from both.
        all_paths: enumerate every continuation, not one for each return it can have.
    """
    world = actor.world
    first = [
        (chosen * chance, step)
        for action, chosen in enumerate(actor.choice[turn][state])
        for chance, step in world.outcomes(turn, state, action)
    ]
    for probability, steps in draws(first, fork.answers):
        drafts = [_draft(fork, step, state_key) for step in steps]
        merges = merged(drafts)
        times = [
            0 if draft.end is not None else merges[i].continuations if i in merges else 1
            for i, draft in enumerate(drafts)
        ]
        ends = [merges[i].end if i in merges else None for i in range(len(steps))]
        choices = [
            list(_continuations(actor, turn + 1, step.onwards, count, all_paths=all_paths))
            if end is None and count
            else [(1.0, [])]
            for step, end, count in zip(steps, ends, times, strict=True)
        ]
        for chosen in product(*choices):
            grown = [
                Sibling(step, end, merges[i].into if i in merges else None, following)
                for i, (step, end, (_, following)) in enumerate(
                    zip(steps, ends, chosen, strict=True)
                )
            ]
            yield probability * prod(chance for chance, _ in chosen), grown


def _draft(fork: Fork, step: Step, state_key: Callable[[int], Hashable]) -> _Draft:
    if step.onwards is None:
        return _Draft(_Walk(fork, 1), End.FINISHED, (), None)
    key = state_key(step.onwards)
    return _Draft(_Walk(fork, 1), None, (STATE + hash(key),), key)


def _continuations(
    actor: Actor, turn: int, state: int, count: int, *, all_paths: bool
) -> Iterator[tuple[float, list[Path]]]:
    ways = paths(actor.world, actor.choice, turn, state)
    if all_paths:
        return draws(list(ways), count)
    return draws(alike(ways, lambda path: round(earned(path), 12)), count)


def branched(
    trunk: Path, before: Actor, turn: int, grown: Sequence[Sibling], now: Actor, grown_in: int = 1
) -> Tree:
    """A trunk by `before` with siblings by `now` at one of its turns."""
    turns: list[Turn] = []
    before.extend(turns, trunk, ROOT_PARENT, 0, 0)
    numbers: list[int] = []
    for sibling in grown:
        twin = None if sibling.into is None else numbers[sibling.into]
        turns.append(
            now.turn(
                sibling.step,
                index=turn,
                parent=turn - 1,
                grown_in=grown_in,
                end=sibling.end,
                into=twin,
            )
        )
        numbers.append(len(turns) - 1)
    for sibling, number in zip(grown, numbers, strict=True):
        for path in sibling.continuations:
            now.extend(turns, path, number, turn + 1, grown_in)
    return Tree(tuple(turns))


def phase(
    before: Actor,
    now: Actor,
    turn: int,
    fork: Fork,
    state_key: Callable[[int], Hashable] = lambda state: state,
    *,
    all_paths: bool = False,
) -> Iterator[Grown]:
    """Every group that one trunk and one phase can give, with its probability.

    First attempts too short to have the turn give nothing; their probability is left out.
    """
    for chance, trunk in trunk_kinds(before, turn):
        possible = siblings(now, fork, turn, trunk[turn].state, state_key, all_paths=all_paths)
        for probability, grown in possible:
            tree = branched(trunk, before, turn, grown, now)
            yield chance * probability, [Group("world", (tree,))]


def flat_groups(actor: Actor, size: int) -> Iterator[Grown]:
    """Every group of unbranched rollouts, with its probability."""
    for probability, members in draws(list(rollouts(actor.world, actor.choice)), size):
        yield probability, [Group("world", tuple(chain(actor, path) for path in members))]


def first_of_flat_groups(actor: Actor, size: int) -> Iterator[tuple[float, Path, Group]]:
    """Every first member of a group; of the others, one for each return they can have."""
    every = list(rollouts(actor.world, actor.choice))
    others = alike(iter(every), lambda path: round(earned(path), 12))
    for chance, path in every:
        for probability, rest in draws(others, size - 1):
            trees = tuple(chain(actor, member) for member in (path, *rest))
            yield chance * probability, path, Group("world", trees)


def exact_tokens(rows: Sequence[Row]) -> ActionTokens:
    """The library's tokens, with floats as wide as the rows hold them."""
    tokens = ActionTokens.of(rows)
    logp = [value for row in rows for value in row.behaviour_logp]
    advantage = [value for row in rows for value in row.advantages]
    return replace(
        tokens,
        behaviour_logp=torch.tensor(logp, dtype=torch.float64),
        advantage=torch.tensor(advantage, dtype=torch.float64),
    )


Score = Callable[[Tensor, Sequence[Row]], Tensor]


def expected_gradient(
    grown: Iterator[Grown],
    credit: Credit,
    loss: PolicyLoss,
    score: Score,
    theta_D: Tensor,
    *,
    view: View = View.EXACT,
    revised: Callable[[list[Row]], list[Row]] = lambda rows: rows,
) -> Tensor:
    """Expectation of what one update adds to the parameters per unit of learning rate.

    Each outcome is one update with its own weights. The loss is linear in the weights, so
    all outcomes are scored in one call, each weighted with its probability. Weights depend on
    nothing but how many tokens each row has and which rows belong to one rollout, so they are
    taken once for each such layout.

    Args:
        grown: outcomes with their probabilities.
        credit: judges each group.
        loss: minimised.
        score: log-probabilities of rows under parameters.
        theta_D: where the gradient is taken.
        view: which context rows carry.
        revised: what is done to the rows before they are learned from, one by one.
    """
    every_row: list[Row] = []
    weights: list[Tensor] = []
    of_layout: dict[Hashable, Tensor] = {}
    for probability, groups in grown:
        rows = rows_of(groups, [credit(group, 1) for group in groups], view)
        if rows:
            layout = tuple((len(row.action), row.rollout) for row in rows)
            if layout not in of_layout:
                of_layout[layout] = loss.weights(ActionTokens.of(rows))
            weights.append(probability * of_layout[layout])
            every_row += rows
    every_row = revised(every_row)
    live_D = theta_D.clone().requires_grad_()
    tokens = exact_tokens(every_row)
    loss(score(live_D, every_row), tokens, torch.cat(weights)).backward()
    return -live_D.grad

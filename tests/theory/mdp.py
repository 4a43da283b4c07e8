"""Small worlds whose every outcome can be counted, policies over them, and exact values.

Everything here is plain textbook dynamic programming in float64 and knows nothing of the
library, except that a policy can score the library's rows. What the library's estimators
should give is computed here; what they do give is computed in `growth`.

Shapes: K turns, S states, A actions, O outcomes of an action (the S states, then WON, then
LOST), N nodes of a word, L letters, D parameters.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement
from math import factorial, prod
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from retrograde.data.rows import Row

STATE = 100
"""Token id of state 0; a context is the one token that names the state."""

Words = tuple[tuple[int, ...], ...]
Table = list[list[list[float]]]
T = TypeVar("T")


@dataclass(frozen=True)
class World:
    """A finite-horizon decision process. Winning is worth 1; each action may earn a bonus."""

    start_S: Tensor
    chance_KSAO: Tensor
    """Probability of each outcome; at the last turn only WON and LOST are possible."""
    bonus_KSA: Tensor

    @property
    def shape(self) -> tuple[int, int, int]:
        """(K, S, A)."""
        return tuple(self.bonus_KSA.shape)

    @cached_property
    def chance(self) -> list[list[list[list[float]]]]:
        """`chance_KSAO` as lists, for enumeration."""
        return self.chance_KSAO.tolist()

    @cached_property
    def bonus(self) -> Table:
        """`bonus_KSA` as lists, for enumeration."""
        return self.bonus_KSA.tolist()

    def outcomes(self, turn: int, state: int, action: int) -> Iterator[tuple[float, "Step"]]:
        """Every possible step, with its probability."""
        num_states = len(self.start_S)
        for outcome, chance in enumerate(self.chance[turn][state][action]):
            if chance:
                onwards = outcome if outcome < num_states else None
                reward = self.bonus[turn][state][action] + float(outcome == num_states)
                yield chance, Step(state, action, reward, onwards)


class Step(NamedTuple):
    """One turn of a rollout."""

    state: int
    action: int
    reward: float
    onwards: int | None
    """The next state; None if the rollout ended here."""


Path = tuple[Step, ...]


def random_world(
    seed: int,
    shape: tuple[int, int, int] = (3, 2, 2),
    *,
    noisy: bool = True,
    stops: bool = False,
    bonus: bool = False,
) -> World:
    """A world drawn at random.

    Args:
        seed: two worlds with the same seed are equal.
        shape: (K, S, A).
        noisy: whether an action can lead to several states; outcomes of the last turn are
            noisy in any case unless the world has no noise at all (then they are 0 or 1).
        stops: whether action 0 ends the rollout at every turn, so that the policy decides
            how long a rollout is.
        bonus: whether actions earn something on the way.
    """
    rng = torch.Generator().manual_seed(seed)
    num_turns, num_states, num_actions = shape
    draw = {"generator": rng, "dtype": torch.float64}
    # Powers make the chances uneven, so that choices matter.
    moves = torch.rand(num_turns, num_states, num_actions, num_states, **draw) ** 4
    wins = torch.rand(num_turns, num_states, num_actions, **draw)
    if not noisy:
        moves = torch.nn.functional.one_hot(moves.argmax(-1), num_states).double()
        wins = wins.round()
    chance = torch.zeros(num_turns, num_states, num_actions, num_states + 2, dtype=torch.float64)
    chance[..., :num_states] = moves / moves.sum(-1, keepdim=True)
    over = torch.zeros(num_turns, num_states, num_actions, dtype=torch.bool)
    over[-1] = True
    over[..., 0] |= stops
    chance[over] = 0.0
    chance[..., num_states] = torch.where(over, wins, 0.0)
    chance[..., num_states + 1] = torch.where(over, 1.0 - wins, 0.0)
    earned = torch.randn(num_turns, num_states, num_actions, **draw) * 0.3 * float(bonus)
    start = torch.rand(num_states, **draw) + 0.2
    return World(start / start.sum(), chance, earned)


def one_letter_words(num_actions: int) -> Words:
    """Actions of one token each."""
    return tuple((action,) for action in range(num_actions))


@dataclass(frozen=True)
class Policy:
    """Softmax over the letters of a word, with logits that are linear in the parameters."""

    features_KSNLD: Tensor
    words: Words
    """The tokens of each action; no word begins another."""

    @cached_property
    def nodes(self) -> dict[tuple[int, ...], int]:
        """Each beginning of a word, where a next letter is chosen, by number."""
        beginnings = dict.fromkeys(word[:i] for word in self.words for i in range(len(word)))
        return {beginning: i for i, beginning in enumerate(beginnings)}

    @property
    def size(self) -> int:
        """Number of parameters: D."""
        return self.features_KSNLD.shape[-1]

    def letters(self, theta_D: Tensor) -> Tensor:
        """log-probability of each letter at each node of each state and turn: K S N L."""
        return (self.features_KSNLD @ theta_D).log_softmax(-1)

    def actions(self, theta_D: Tensor) -> Tensor:
        """log-probability of each action in each state at each turn: K S A."""
        letter_KSNL = self.letters(theta_D)
        of_word = [
            sum(letter_KSNL[..., self.nodes[word[:i]], word[i]] for i in range(len(word)))
            for word in self.words
        ]
        return torch.stack(of_word, -1)

    def score(self, theta_D: Tensor, rows: Sequence[Row]) -> Tensor:
        """log-probability of each action token of rows, as a learner would give it."""
        where = [
            (row.turn, row.context[-1] - STATE, self.nodes[row.action[:i]], row.action[i])
            for row in rows
            for i in range(len(row.action))
        ]
        return self.letters(theta_D)[tuple(torch.tensor(where).T)]

    def random(self, seed: int, spread: float = 1.0) -> Tensor:
        """Parameters drawn at random."""
        rng = torch.Generator().manual_seed(seed)
        return torch.randn(self.size, generator=rng, dtype=torch.float64) * spread


def turn_tables(shape: tuple[int, int, int], words: Words | None = None) -> Policy:
    """One table for each turn: what is learned at one turn cannot touch another."""
    num_turns, num_states, num_actions = shape
    words = words or one_letter_words(num_actions)
    num_nodes = len({word[:i] for word in words for i in range(len(word))})
    num_letters = 1 + max(letter for word in words for letter in word)
    full = (num_turns, num_states, num_nodes, num_letters)
    size = prod(full)
    return Policy(torch.eye(size, dtype=torch.float64).view(*full, size), words)


def shared_table(shape: tuple[int, int, int]) -> Policy:
    """One table for all turns: the turn index is not visible, as under one shared network."""
    num_turns, num_states, num_actions = shape
    own = turn_tables((1, num_states, num_actions))
    words = one_letter_words(num_actions)
    return Policy(own.features_KSNLD.expand(num_turns, -1, -1, -1, -1), words)


def with_new_turns(policy: Policy, old_D: Tensor, new_D: Tensor, first: int) -> Tensor:
    """Parameters of per-turn tables: old below turn `first`, new from there on."""
    tables = old_D.view(policy.features_KSNLD.shape[:-1]).clone()
    tables[first:] = new_D.view(tables.shape)[first:]
    return tables.flatten()


class Values(NamedTuple):
    """Exact values of a policy."""

    q_KSA: Tensor
    v_KS: Tensor
    total: Tensor
    """J: the expected return."""


def values(world: World, logp_KSA: Tensor) -> Values:
    """Backward induction; differentiable in the policy."""
    num_turns, num_states, _ = world.shape
    ends = torch.tensor([1.0, 0.0], dtype=torch.float64)
    v_S = torch.zeros(num_states, dtype=torch.float64)
    q: list[Tensor] = []
    v: list[Tensor] = []
    for turn in reversed(range(num_turns)):
        q_SA = world.bonus_KSA[turn] + world.chance_KSAO[turn] @ torch.cat([v_S, ends])
        v_S = (logp_KSA[turn].exp() * q_SA).sum(-1)
        q.insert(0, q_SA)
        v.insert(0, v_S)
    return Values(torch.stack(q), torch.stack(v), world.start_S @ v_S)


def visitation(world: World, logp_KSA: Tensor) -> Tensor:
    """Probability that a rollout has a turn k and is in state s there: K S."""
    num_turns, num_states, _ = world.shape
    at = [world.start_S]
    for turn in range(num_turns - 1):
        onwards_SAS = world.chance_KSAO[turn][..., :num_states]
        at.append(torch.einsum("s,sa,sat->t", at[-1], logp_KSA[turn].exp(), onwards_SAS))
    return torch.stack(at)


def turn_gradient(
    world: World, policy: Policy, trunk_D: Tensor, theta_D: Tensor, turn: int
) -> Tensor:
    """Gradient of J through the choices at one turn: D.

    States are visited as `trunk_D` visits them; the choice and what follows are `theta_D`'s.
    It is the sum over states and actions of d(s) Q(s, a) grad pi(a | s).
    """
    at_S = visitation(world, policy.actions(trunk_D))[turn]
    q_SA = values(world, policy.actions(theta_D)).q_KSA[turn]
    live_D = theta_D.clone().requires_grad_()
    chosen_SA = policy.actions(live_D)[turn].exp()
    (at_S.unsqueeze(-1) * chosen_SA * q_SA).sum().backward()
    return live_D.grad


def full_gradient(world: World, policy: Policy, theta_D: Tensor) -> Tensor:
    """Gradient of J through every choice: D."""
    live_D = theta_D.clone().requires_grad_()
    values(world, policy.actions(live_D)).total.backward()
    return live_D.grad


def paths(world: World, choice: Table, turn: int, state: int) -> Iterator[tuple[float, Path]]:
    """Every way a rollout can go on from a state, with its probability.

    Args:
        world: the world.
        choice: probability of each action, by turn and state.
        turn: where it starts.
        state: where it starts.
    """
    for action, chosen in enumerate(choice[turn][state]):
        for chance, step in world.outcomes(turn, state, action):
            if step.onwards is None:
                yield chosen * chance, (step,)
                continue
            for after, rest in paths(world, choice, turn + 1, step.onwards):
                yield chosen * chance * after, (step, *rest)


def rollouts(world: World, choice: Table) -> Iterator[tuple[float, Path]]:
    """Every rollout from the start, with its probability."""
    for state, begins in enumerate(world.start_S.tolist()):
        for chance, path in paths(world, choice, 0, state) if begins else ():
            yield begins * chance, path


def earned(path: Path) -> float:
    """The return of a path."""
    return sum(step.reward for step in path)


def alike(
    weighted: Iterator[tuple[float, T]], kind: Callable[[T], Hashable]
) -> list[tuple[float, T]]:
    """One of each kind, with the probability of the whole kind."""
    chance: dict[Hashable, float] = {}
    one: dict[Hashable, T] = {}
    for weight, value in weighted:
        key = kind(value)
        one.setdefault(key, value)
        chance[key] = chance.get(key, 0.0) + weight
    return [(chance[key], value) for key, value in one.items()]


def draws(weighted: Sequence[tuple[float, T]], count: int) -> Iterator[tuple[float, list[T]]]:
    """Every outcome of independent draws, up to their order, with its probability.

    The order of draws does not matter to anything computed from them here: what is looked
    at is a sum over siblings.
    """
    for chosen in combinations_with_replacement(range(len(weighted)), count):
        orders = factorial(count)
        for i in set(chosen):
            orders //= factorial(chosen.count(i))
        yield orders * prod(weighted[i][0] for i in chosen), [weighted[i][1] for i in chosen]

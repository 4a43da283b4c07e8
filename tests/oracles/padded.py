"""The same rollouts twice: as the library's groups, and as verl's rectangles with a mask.

A rollout is a row of the rectangle: action tokens, with gaps for what the environment said in
between and padding behind. What the mask hides is filled with noise, so that whatever reads it
comes out wrong. Read row by row, the tokens that the mask shows are the library's action tokens,
in the same order.

Shapes: B rollouts, L tokens of the longest, T action tokens of all.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from retrograde.data.rows import Judgement, Row, rows_of
from retrograde.data.tree import ROOT_PARENT, End, Group, Tree, Turn

Reward = Callable[[random.Random], float]


def any_number(rng: random.Random) -> float:
    """A return of any size and sign."""
    return rng.gauss(0, 1)


@dataclass(frozen=True)
class Ragged:
    """Groups of unbranched rollouts, and their rectangles."""

    groups: list[Group]
    mask_BL: Tensor
    """1 where the policy spoke; all 0 for a rollout that failed."""
    index_B: np.ndarray
    """Which group each rollout belongs to."""
    reward_BL: Tensor
    """What each turn earned, on the last token of its action."""
    turn_BL: Tensor
    """Index of the turn that a token is part of; -1 where the mask is 0."""
    noise: torch.Generator = field(default_factory=torch.Generator)

    def rectangle(self, value_T: Tensor) -> Tensor:
        """Values of action tokens where they belong, and noise everywhere else."""
        full_BL = torch.randn(self.mask_BL.shape, generator=self.noise, dtype=value_T.dtype)
        return full_BL.masked_scatter(self.mask_BL.bool(), value_T)

    def tokens(self, full_BL: Tensor) -> Tensor:
        """The action tokens of a rectangle."""
        return full_BL[self.mask_BL.bool()]

    def rows(self, judged: list[list[Judgement]]) -> list[Row]:
        """The library's rows."""
        return rows_of(self.groups, judged)

    def turn_rows(self, full_BL: Tensor) -> Tensor:
        """One row for each turn in place of one for each rollout."""
        numbers = [(b, t) for b in range(len(full_BL)) for t in self.turn_BL[b].unique().tolist()]
        return torch.stack(
            [
                torch.where(self.turn_BL[b] == turn, full_BL[b], torch.zeros_like(full_BL[b]))
                for b, turn in numbers
                if turn >= 0
            ]
        )


def ragged(
    seed: int,
    *,
    sizes: tuple[int, ...] = (3, 5, 2),
    reward: Reward = any_number,
    turn_rewards: bool = False,
    fails: float = 0.0,
    most_tokens: int = 5,
) -> Ragged:
    """Rollouts of 1 to 4 turns of 1 to `most_tokens` tokens, with gaps of 0 to 3 in between.

    Args:
        seed: of all of it.
        sizes: rollouts of each group.
        reward: draws what the last turn earns.
        turn_rewards: whether turns before the last earn as well.
        fails: share of rollouts that fail, which a mask of nothing but 0 stands for. The first
            of each group does not.
        most_tokens: of an action.
    """
    rng = random.Random(seed)
    lines: list[tuple[list[int], list[float]]] = []
    groups: list[Group] = []
    for g, size in enumerate(sizes):
        trees: list[Tree] = []
        for i in range(size):
            failed = i > 0 and rng.random() < fails
            tree = _rollout(rng, reward, most_tokens, failed=failed, turn_rewards=turn_rewards)
            trees.append(tree)
            lines.append(_line(rng, tree, failed=failed))
        groups.append(Group(f"task {g}", tuple(trees)))
    longest = max(len(turns) for turns, _ in lines) + 2
    turn_BL = torch.full((len(lines), longest), -1)
    reward_BL = torch.zeros(len(lines), longest, dtype=torch.float64)
    for b, (turns, rewards) in enumerate(lines):
        turn_BL[b, : len(turns)] = torch.tensor(turns)
        reward_BL[b, : len(turns)] = torch.tensor(rewards, dtype=torch.float64)
    return Ragged(
        groups=groups,
        mask_BL=(turn_BL >= 0).double(),
        index_B=np.repeat(np.arange(len(sizes)), sizes),
        reward_BL=reward_BL,
        turn_BL=turn_BL,
        noise=torch.Generator().manual_seed(seed),
    )


def _rollout(
    rng: random.Random, reward: Reward, most_tokens: int, *, failed: bool, turn_rewards: bool
) -> Tree:
    turns: list[Turn] = []
    length = rng.randint(1, 4)
    for i in range(length):
        action = tuple(rng.randrange(9) for _ in range(rng.randint(1, most_tokens)))
        last = i == length - 1
        turns.append(
            Turn(
                parent=i - 1 if i else ROOT_PARENT,
                shared=0,
                fresh=(i,),
                observation=(i,),
                action=action,
                logprobs=tuple(-rng.expovariate(1) for _ in action),
                grown_in=0,
                policy_version=0,
                reward=reward(rng) if not failed and (last or turn_rewards) else 0.0,
                end=(End.FAILED if failed else End.FINISHED) if last else None,
            )
        )
    return Tree(tuple(turns))


def _line(rng: random.Random, tree: Tree, *, failed: bool) -> tuple[list[int], list[float]]:
    """The turn and the reward of each token of a rollout, gaps between the turns included."""
    turns: list[int] = []
    rewards: list[float] = []
    for i, turn in enumerate(tree.turns):
        spoken = len(turn.action)
        gap = rng.randint(0, 3) if i < len(tree.turns) - 1 else 0
        turns += [-1 if failed else i] * spoken + [-1] * gap
        rewards += [0.0] * (spoken - 1) + [turn.reward] + [0.0] * gap
    return turns, rewards

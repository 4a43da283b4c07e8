"""The rollout tree: turns that share a past share a node.

Edges say what happened; each turn says, token for token, what the policy was
shown and what it answered. The two are kept apart because they can differ: a
chat template may drop old thinking, a window may drop old results. No part of
this library decodes tokens and encodes them again.

A turn stores only the tokens its parent's does not already hold, so a tree
takes memory linear in its distinct tokens; `Tree.context` puts them together.

Shapes: N turns in the tree, numbered so that parents precede children.
"""

import math
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from itertools import chain
from statistics import fmean

from retrograde.data.message import Message

ROOT_PARENT = -1
DUST = 1e-3
"""Log-probabilities of near certainty may pass 0 by so much of rounding, in nats."""


class End(StrEnum):
    """Why a turn was the last one on its path."""

    FINISHED = "finished"
    """The environment said done."""
    TRUNCATED = "truncated"
    """A budget of turns or tokens ran out."""
    FAILED = "failed"
    """A tool or the environment broke; not the policy's fault, so never a reward of zero."""
    MERGED = "merged"
    """Led to the same state as `merged_into`, whose continuations stand for its own."""
    SPARED = "spared"
    """Every sibling led to this same state: nothing to compare, so nothing was continued."""
    STOPPED = "stopped"
    """The plan went no further: what was earned so far is the return. A later round of the
    same iteration may go on from here, and the turn then has no end any more."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What the policy was shown once, and its answer.

    Example:
        The second turn of a rollout whose context policy kept the first four
        tokens of what was before (context and answer of turn 0) and then showed
        tokens 8 and 9; the policy answered 5 and stop token 2::

            Turn(parent=0, shared=4, fresh=(8, 9), observation=(8, 9), action=(5, 2),
                 logprobs=(-0.1, -0.02), grown_in=0, policy_version=3, reward=1.0,
                 end=End.FINISHED)
    """

    parent: int
    """Index of the turn this one follows; ROOT_PARENT if it answers the opening."""
    shared: int
    """How many leading tokens of the parent's context and action this context begins with."""
    fresh: tuple[int, ...]
    """The rest of the context: the token ids after the shared ones."""
    observation: tuple[int, ...]
    """What a flat history appends here: the environment's words since the parent's
    answer (the opening, for a first turn) with the generation prompt behind them."""
    action: tuple[int, ...]
    """Token ids the policy sampled, exactly as sampled, stop token included. Empty only where the
    rollout failed because there were none."""
    logprobs: tuple[float, ...]
    """log mu(action) in nats under the distribution it was drawn from, one a token."""
    grown_in: int
    """Round of growth that sampled it; 0 is the first."""
    policy_version: int
    """Number of the published weights that sampled the action."""
    reward: float = 0.0
    """Reward for this turn alone. Outcome rewards sit on the last turn of a path."""
    end: End | None = None
    """Set on the last turn of a path, None elsewhere."""
    merged_into: int | None = None
    """The turn whose continuations stand for this one's; set exactly if `end` is MERGED."""
    score: float | None = None
    """In [0, 1]: how far the task was done after this turn, by the environment's own
    reckoning; None if it does not say. It steers plans and is never a reward."""
    entropies: tuple[float, ...] = ()
    """Entropy in nats of the distribution each action token was drawn from; empty if the
    policy does not tell."""
    heard: tuple[Message, ...] = field(default=(), compare=False)
    """`observation` before the chat template spelled it: the environment's messages since the
    parent's answer, as the policy was shown them. For people and for exports; never trained on."""

    def __post_init__(self) -> None:
        if not self.action and self.end is not End.FAILED:
            raise ValueError("a turn that did not fail needs at least one action token: got none")
        if len(self.logprobs) != len(self.action):
            raise ValueError(
                f"a turn needs one logprob for each action token: "
                f"got {len(self.logprobs)} logprobs for {len(self.action)} tokens"
            )
        if not all(map(math.isfinite, self.logprobs)) or max(self.logprobs, default=0.0) > DUST:
            raise ValueError(
                f"log-probabilities are finite and at most 0 (nats): got {self.logprobs}"
            )
        if self.entropies and len(self.entropies) != len(self.action):
            raise ValueError(
                f"a turn needs one entropy for each action token, or none: "
                f"got {len(self.entropies)} entropies for {len(self.action)} tokens"
            )
        if self.score is not None and not 0 <= self.score <= 1:
            raise ValueError(f"a score lies between 0 and 1: got {self.score}")
        if not math.isfinite(self.reward):
            raise ValueError(f"a reward is a finite number: got {self.reward}; use End.FAILED")
        if (self.merged_into is not None) != (self.end is End.MERGED):
            raise ValueError(
                f"merged_into goes with end=MERGED: got {self.merged_into} with end={self.end}"
            )

    @property
    def nll(self) -> float:
        """Mean of -log mu over the action's tokens, in nats: one sample's word on their entropy."""
        return max(0.0, -fmean(self.logprobs))  # dust above certainty is certainty


@dataclass(frozen=True)
class Tree:
    """Rollouts that grew from one first attempt. An unbranched rollout is a tree of one path."""

    turns: tuple[Turn, ...]

    def __post_init__(self) -> None:
        for i, turn in enumerate(self.turns):
            self._check(i, turn)
        for leaf in self.leaves:
            if self.turns[leaf].end is None:
                raise ValueError(
                    f"turn {leaf} is a leaf without an end; a rollout ends with a reason"
                )

    def _check(self, i: int, turn: Turn) -> None:
        if not ROOT_PARENT <= turn.parent < i:
            raise ValueError(f"turn {i} has parent {turn.parent}; parents must precede children")
        if turn.merged_into is not None:
            twin = turn.merged_into
            if not 0 <= twin < i or self.turns[twin].parent != turn.parent:
                raise ValueError(
                    f"turn {i} is merged into {twin}, which is no earlier sibling of it"
                )
        if turn.parent == ROOT_PARENT:
            if turn.shared:
                raise ValueError(
                    f"turn {i} is a first turn and shares {turn.shared} tokens with none"
                )
            return
        parent = self.turns[turn.parent]
        if parent.end is not None:
            raise ValueError(f"turn {i} continues turn {turn.parent}, which ended: {parent.end}")
        if turn.grown_in < parent.grown_in:
            raise ValueError(f"turn {i} was grown in round {turn.grown_in}, before its parent")
        held = parent.shared + len(parent.fresh) + len(parent.action)
        if not 0 <= turn.shared <= held:
            raise ValueError(f"turn {i} shares {turn.shared} tokens; its parent holds {held}")

    @cached_property
    def leaves(self) -> tuple[int, ...]:
        """Turns that no turn continues, in order of creation."""
        inner = {turn.parent for turn in self.turns}
        return tuple(i for i in range(len(self.turns)) if i not in inner)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """The turns that continue each turn; N entries."""
        below: list[list[int]] = [[] for _ in self.turns]
        for i, turn in enumerate(self.turns):
            if turn.parent != ROOT_PARENT:
                below[turn.parent].append(i)
        return tuple(map(tuple, below))

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """Absolute turn index of each turn, 0 for a first turn; N entries."""
        depth: list[int] = []
        for turn in self.turns:
            depth.append(0 if turn.parent == ROOT_PARENT else depth[turn.parent] + 1)
        return tuple(depth)

    @cached_property
    def returns(self) -> tuple[float, ...]:
        """Sum of rewards from the root to each turn, undiscounted; N entries."""
        total: list[float] = []
        for turn in self.turns:
            before = 0.0 if turn.parent == ROOT_PARENT else total[turn.parent]
            total.append(before + turn.reward)
        return tuple(total)

    @cached_property
    def visits(self) -> tuple[tuple[int, int], ...]:
        """(leaf, turn) for each turn of each root-to-leaf path, path by path.

        A turn shared by k paths has k visits. Credit is assigned to visits, since
        some methods judge a shared turn once and others once for each path.
        """
        return tuple([(leaf, turn) for leaf in self.leaves for turn in self.path(leaf)])

    @cached_property
    def trunk(self) -> tuple[int, ...]:
        """The turns of the first attempt, first to last: the eldest child each time."""
        found = [0] if self.turns else []
        while found and self.children[found[-1]]:
            found.append(self.children[found[-1]][0])
        return tuple(found)

    def path(self, turn: int) -> tuple[int, ...]:
        """Indices from the root down to `turn`, both included."""
        upwards: list[int] = []
        while turn != ROOT_PARENT:
            upwards.append(turn)
            turn = self.turns[turn].parent
        return tuple(reversed(upwards))

    def context(self, turn: int) -> tuple[int, ...]:
        """All token ids the answer was conditioned on, exactly as the engine received them."""
        node = self.turns[turn]
        pieces, needed = [node.fresh], node.shared
        while needed:
            node = self.turns[node.parent]
            kept = node.shared + len(node.fresh)
            if needed > kept:
                pieces.append(node.action[: needed - kept])
                needed = kept
            if needed > node.shared:
                pieces.append(node.fresh[: needed - node.shared])
                needed = node.shared
        return tuple(chain.from_iterable(reversed(pieces)))

    def history(self, turn: int) -> tuple[int, ...]:
        """The flat history before the answer: every observation and action on the way.

        It is what most trainers score a token under. It equals `context` exactly if the
        context policy keeps everything.
        """
        *before, last = self.path(turn)
        flat: list[int] = []
        for i in before:
            flat += self.turns[i].observation + self.turns[i].action
        return (*flat, *self.turns[last].observation)

    def appends(self, turn: int) -> bool:
        """Whether the turn was shown exactly what came before, plus something new.

        If so, it can share a training row with its parent. If not, it needs its own.
        """
        node = self.turns[turn]
        if node.parent == ROOT_PARENT:
            return False
        parent = self.turns[node.parent]
        return node.shared == parent.shared + len(parent.fresh) + len(parent.action)


@dataclass(frozen=True, slots=True)
class Group:
    """The trees grown for one task. Baselines are taken within a group, never across."""

    task: str
    """What the environment calls this task; opening it again gives the same start."""
    trees: tuple[Tree, ...] = ()


def shared_length(before: tuple[int, ...], context: tuple[int, ...]) -> int:
    """How many leading tokens two token sequences have in common."""
    shared, longest = 0, min(len(before), len(context))
    upto = longest
    while shared < longest:  # looked for by halves: slices are compared quickly
        if before[shared:upto] == context[shared:upto]:
            shared = upto
        else:
            longest = upto - 1
        upto = (shared + longest + 1) // 2
    return shared

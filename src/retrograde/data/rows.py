"""From judged trees to what the learner trains on: one row for each turn that trains."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from retrograde.data.tree import Group, Tree

Advantage = float | tuple[float, ...]
"""One for all tokens of an action, or one for each of them."""


class Judgement(NamedTuple):
    """Credit for the visits of one tree; V values each, in the order of `Tree.visits`."""

    advantage_V: tuple[Advantage, ...]
    trains_V: tuple[bool, ...]
    """False means the visit gives no gradient, which is not the same as an advantage of 0."""
    clip_V: tuple[float, ...] | None = None
    """Factors for the clip bounds; None for 1 everywhere."""
    target_V: tuple[tuple[float, ...], ...] | None = None
    """What a critic is to say of each state; None if no critic learns from this."""
    value_V: tuple[tuple[float, ...], ...] | None = None
    """What it said of each state when it was asked."""


class View(StrEnum):
    """Which context a turn is trained under, and against which log-probabilities."""

    EXACT = "exact"
    """The stored context and the sampler's log-probabilities: the policy that acted."""
    FLAT_RECOMPUTED = "flat_recomputed"
    """The flat history, log-probabilities recomputed on it before the first step: the
    ratio starts at 1, and the gradient is that of no policy that acted."""
    FLAT_SAMPLED = "flat_sampled"
    """The flat history against the sampler's log-probabilities: the ratio starts away from 1."""


@dataclass(frozen=True, slots=True)
class Row:
    """One visit to one turn: what it is trained under, what it said, and what that was worth."""

    context: tuple[int, ...]
    action: tuple[int, ...]
    behaviour_logp: tuple[float, ...]
    """log mu of each action token, in nats."""
    advantage: Advantage
    turn: int
    """Absolute index of the turn in its rollout, 0 for the first."""
    group: int
    rollout: tuple[int, int, int, int]
    """(policy version, group, tree, leaf): rows of one rollout share it."""
    clip_scale: float = 1.0
    """Both clip bounds are multiplied by it."""
    target: tuple[float, ...] = ()
    """What a critic is to say; empty if none learns from this row."""
    entropies: tuple[float, ...] = ()
    """Of the distribution each token was drawn from, in nats; empty if unknown."""
    values: tuple[float, ...] = ()
    """What a critic said when the advantage was taken, beside `target`; empty if none did."""

    @property
    def advantages(self) -> tuple[float, ...]:
        """One for each action token."""
        each = self.advantage
        return each if isinstance(each, tuple) else (each,) * len(self.action)

    @property
    def is_informative(self) -> bool:
        """Whether any token has an advantage other than 0."""
        each = self.advantage
        return any(each) if isinstance(each, tuple) else each != 0


def rows_of(
    groups: Sequence[Group], judgements: Sequence[Sequence[Judgement]], view: View = View.EXACT
) -> list[Row]:
    """The rows of an update, those with an advantage of 0 included: they count in every mean.

    Args:
        groups: the groups of one iteration.
        judgements: for each group, one judgement for each of its trees.
        view: which context the rows carry.
    """
    return [
        row
        for g, (group, judged) in enumerate(zip(groups, judgements, strict=True))
        for t, (tree, judgement) in enumerate(zip(group.trees, judged, strict=True))
        for row in _rows_of_tree(tree, judgement, view, g, t)
    ]


def _rows_of_tree(tree: Tree, judgement: Judgement, view: View, g: int, t: int) -> Iterator[Row]:
    visits = len(tree.visits)
    clips = judgement.clip_V or (1.0,) * visits
    targets = judgement.target_V or ((),) * visits
    values = judgement.value_V or ((),) * visits
    worth = zip(judgement.advantage_V, judgement.trains_V, clips, targets, values, strict=True)
    for (leaf, turn), (advantage, trains, clip, target, said) in zip(
        tree.visits, worth, strict=True
    ):
        if trains:
            place = (tree.turns[turn].policy_version, g, t, leaf)
            yield row_of(
                tree, turn, advantage, view, place, clip_scale=clip, target=target, values=said
            )


def row_of(
    tree: Tree,
    turn: int,
    advantage: Advantage,
    view: View,
    rollout: tuple[int, int, int, int],
    *,
    clip_scale: float = 1.0,
    target: tuple[float, ...] = (),
    values: tuple[float, ...] = (),
) -> Row:
    """One turn as a row."""
    node = tree.turns[turn]
    return Row(
        context=tree.context(turn) if view is View.EXACT else tree.history(turn),
        action=node.action,
        behaviour_logp=node.logprobs,
        advantage=advantage,
        turn=tree.depths[turn],
        group=rollout[1],
        rollout=rollout,
        clip_scale=clip_scale,
        target=target,
        entropies=node.entropies,
        values=values,
    )

"""The trees of an iteration while a round grows on them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from retrograde.data.tree import ROOT_PARENT, End, Group, Tree, Turn, shared_length
from retrograde.rollouts.plans import NEW_TREE, Fork
from retrograde.rollouts.progress import Ended
from retrograde.rollouts.walk import Draft, Place, Standing

OVER = (End.FINISHED, End.TRUNCATED, End.FAILED)
"""Ends after which nobody goes on, neither the rollout itself nor another in its place."""


class Round:
    """Takes down what grows."""

    def __init__(self, groups: Sequence[Group], number: int, version: int) -> None:
        """Begin with what earlier rounds grew.

        Args:
            groups: the groups so far.
            number: of the round.
            version: of the weights that answer in it.
        """
        self.number = number
        self.version = version
        self.tasks = [group.task for group in groups]
        self.ended = Counter[End]()
        """How many rollouts ended in each way in this round."""
        self._turns = [[list(tree.turns) for tree in group.trees] for group in groups]
        self._last: tuple[Place, End] | None = None

    def start(self, group: int, fork: Fork) -> Place:
        """Where one more answer to a fork stands; a new tree is planted for it if need be.

        A stopped turn that is gone on from has not ended.
        """
        trees = self._turns[group]
        if fork.tree == NEW_TREE:
            trees.append([])
            return Place(group, len(trees) - 1, ROOT_PARENT)
        place = Place(group, fork.tree, fork.parent)
        if fork.parent != ROOT_PARENT and 0 <= fork.tree < len(trees):
            turns = trees[fork.tree]
            if fork.parent < len(turns) and turns[fork.parent].end is End.STOPPED:
                turns[fork.parent] = replace(turns[fork.parent], end=None)
        return place

    def add(self, draft: Draft, end: End | None, twin: int | None = None) -> Place:
        """An answer as a turn; where what follows it stands.

        Args:
            draft: the answer, and what came of it.
            end: why nothing follows, after merging.
            twin: the turn whose continuations stand for its own.
        """
        return self._added(draft.walk.place, draft.turn(self.number, self.version, end, twin))

    def lose(self, place: Place, standing: Standing | None) -> None:
        """A rollout that broke before the policy could say a word: a leaf that never trains."""
        context, before = ((), ()) if standing is None else (standing.context, standing.before)
        shared = shared_length(before, context)
        turn = Turn(
            parent=place.turn,
            shared=shared,
            fresh=context[shared:],
            observation=() if standing is None else standing.history.observation,
            action=(),
            logprobs=(),
            grown_in=self.number,
            policy_version=self.version,
            end=End.FAILED,
            heard=() if standing is None else standing.shown,
        )
        self._added(place, turn)

    def _added(self, place: Place, turn: Turn) -> Place:
        turns = self._turns[place.group][place.tree]
        turns.append(turn)
        place = Place(place.group, place.tree, len(turns) - 1)
        if turn.end is not None:
            self.ended[turn.end] += 1
        if turn.end is not None and turn.end in OVER:
            self._last = (place, turn.end)
        return place

    def depth(self, place: Place) -> int:
        """Turns from the opening up to a place."""
        return len(self._path(place))

    def last_ended(self) -> Ended | None:
        """The rollout of this round that ended last; merged and stopped ones are not over."""
        if self._last is None:
            return None
        place, end = self._last
        path = self._path(place)
        return Ended(end, sum(turn.reward for turn in path), len(path))

    def _path(self, place: Place) -> list[Turn]:
        """The turns that lead to a place, the last one first."""
        turns = self._turns[place.group][place.tree]
        path: list[Turn] = []
        at = place.turn
        while at != ROOT_PARENT:
            path.append(turns[at])
            at = turns[at].parent
        return path

    def groups(self) -> list[Group]:
        """The groups with the round in them."""
        return [
            Group(task, tuple(Tree(tuple(turns)) for turns in trees))
            for task, trees in zip(self.tasks, self._turns, strict=True)
        ]


def has_sound(group: Group) -> bool:
    """Whether any rollout of a group is worth something."""
    return any(
        tree.turns[leaf].end is not End.FAILED for tree in group.trees for leaf in tree.leaves
    )

"""Stored rollouts as training examples for others, in the conversational formats of TRL.

A message is what the environment said, with its role, or what the policy answered, as sampled but
for the stop token: thoughts stay in it, and so do calls of tools, as the text they were. A
conversation is everything that was said, in order. Under a context policy other than `full` the
policy was shown less of it when it answered.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from statistics import fmean
from typing import Any, NamedTuple

from retrograde.data.message import Message
from retrograde.data.stored import StoredGroup
from retrograde.data.tree import ROOT_PARENT, End, Tree

Example = dict[str, Any]
UNPLAYED = {
    End.FAILED: "failed: the environment broke",
    End.MERGED: "led to the same state as a sibling, which stands for it",
    End.SPARED: "led to the same state as every sibling, and was not played on",
}
"""Why leaves with these ends say nothing of what they were worth."""
NO_ROLES = "stored by a version that did not keep roles"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is good enough."""

    min_reward: float = -inf
    """Least return of a rollout; of a preference, least mean return behind what is chosen."""
    only_success: bool = False
    """Whether a rollout must have done its task; of a preference, one behind what is chosen."""
    min_margin: float = 0.0
    """Least difference between what is chosen and what is rejected."""


class Exporter:
    """Turns groups into examples, and counts what it leaves out."""

    def __init__(self, wanted: Wanted) -> None:
        """Have seen nothing yet."""
        self.wanted = wanted
        self.left_out: Counter[str] = Counter()
        """By reason."""
        self.number = 0
        """Of examples."""
        self._seen: set[str] = set()

    def sft(self, stored: StoredGroup) -> Iterator[Example]:
        """One example for each rollout: `messages`, and `tools` if there were any."""
        for t, tree in enumerate(stored.group.trees):
            for leaf in tree.leaves:
                why = self._lacks(stored, t, leaf)
                if why is not None:
                    self.left_out[why] += 1
                    continue
                yield from self._new(
                    {
                        "messages": _said(stored, t, tree.path(leaf)),
                        **_tools(tree, leaf),
                        "task": stored.group.task,
                        "step": stored.step,
                        "reward": tree.returns[leaf],
                    }
                )

    def preference(self, stored: StoredGroup) -> Iterator[Example]:
        """One example for each fork: `prompt`, and the best and the worst answer to it.

        Siblings answered the very same context. An answer is worth the mean return of the rollouts
        that go on from it, or from the same words said again. First answers of all trees of a
        group are siblings too, if they answered the same opening.
        """
        for fork in _forks(stored):
            answers = [answer for answer in map(partial(_worth, stored), fork) if answer]
            self.left_out["answers that were not played on"] += len(fork) - len(answers)
            why = self._unfit(answers)
            if why is not None:
                self.left_out[why] += 1
                continue
            best, worst = max(answers), min(answers)
            tree = stored.group.trees[best.tree]
            *before, chosen = _said(stored, best.tree, tree.path(best.turn))
            rejected = _said(stored, worst.tree, (worst.turn,))[-1]
            yield from self._new(
                {
                    "prompt": before,
                    "chosen": [chosen],
                    "rejected": [rejected],
                    **_tools(tree, best.turn),
                    "task": stored.group.task,
                    "step": stored.step,
                    "reward_chosen": best.worth,
                    "reward_rejected": worst.worth,
                }
            )

    def _new(self, example: Example) -> Iterator[Example]:
        """The example, unless its words were exported already."""
        told = ("task", "step", "reward", "reward_chosen", "reward_rejected")
        text = json.dumps({name: example[name] for name in example if name not in told})
        if text in self._seen:
            self.left_out["the same words as another example"] += 1
            return
        self._seen.add(text)
        self.number += 1
        yield example

    def _lacks(self, stored: StoredGroup, t: int, leaf: int) -> str | None:
        tree = stored.group.trees[t]
        end = tree.turns[leaf].end
        if end is not None and end in UNPLAYED:
            return UNPLAYED[end]
        if not _has_roles(tree, leaf):
            return NO_ROLES
        if tree.returns[leaf] < self.wanted.min_reward:
            return f"earned less than {self.wanted.min_reward:g}"
        if self.wanted.only_success and not stored.success[t].get(leaf, False):
            return "did not do its task"
        return None

    def _unfit(self, answers: Sequence["Answered"]) -> str | None:
        best, worst = max(answers, default=None), min(answers, default=None)
        if best is None or worst is None or best.worth <= worst.worth:
            return "forks whose answers came to the same"
        if not best.has_roles:
            return NO_ROLES
        if best.worth - worst.worth < self.wanted.min_margin:
            return f"forks whose answers differ by less than {self.wanted.min_margin:g}"
        if best.worth < self.wanted.min_reward:
            return f"forks whose best answer earned less than {self.wanted.min_reward:g}"
        if self.wanted.only_success and not best.succeeded:
            return "forks whose best answer did not do the task"
        return None


class Answered(NamedTuple):
    """Words that were said to a context, once or more often, and what they were worth."""

    worth: float
    """Mean return of what goes on from them."""
    succeeded: bool
    """Whether anything that goes on from them did its task."""
    has_roles: bool
    tree: int
    turn: int
    """Where they were said first."""


def _forks(stored: StoredGroup) -> Iterator[list[list[tuple[int, int]]]]:
    """For each context that was answered in two ways or more, each way: (tree, turn) of it."""
    trees = stored.group.trees
    asked: dict[tuple[int, int, tuple[int, ...]], dict[tuple[int, ...], list[tuple[int, int]]]] = {}
    for t, tree in enumerate(trees):
        for turn, node in enumerate(tree.turns):
            if node.action:
                root = node.parent == ROOT_PARENT
                place = (-1 if root else t, node.parent, tree.context(turn))
                asked.setdefault(place, {}).setdefault(node.action, []).append((t, turn))
    yield from ([*ways.values()] for ways in asked.values() if len(ways) > 1)


def _behind(tree: Tree, turn: int) -> list[int]:
    """The leaves that go on from a turn, itself if it is one."""
    return [leaf for leaf in tree.leaves if turn in tree.path(leaf)]


def _worth(stored: StoredGroup, said: Sequence[tuple[int, int]]) -> Answered | None:
    """What words were worth that were said at these turns; None if nothing was played out."""
    returns: list[float] = []
    succeeded = False
    for t, turn in said:
        tree = stored.group.trees[t]
        for leaf in _behind(tree, turn):
            if tree.turns[leaf].end not in UNPLAYED:
                returns.append(tree.returns[leaf])
                succeeded |= stored.success[t].get(leaf, False)
    t, turn = said[0]
    roles = _has_roles(stored.group.trees[t], turn)
    return Answered(fmean(returns), succeeded, roles, t, turn) if returns else None


def _has_roles(tree: Tree, turn: int) -> bool:
    first, *_ = tree.path(turn)
    return bool(tree.turns[first].heard)


def _said(stored: StoredGroup, t: int, path: Sequence[int]) -> list[Example]:
    """What was said on a path of turns, in order."""
    messages: list[Example] = []
    for turn in path:
        node = stored.group.trees[t].turns[turn]
        messages += [_plain(message) for message in node.heard]
        messages.append({"role": "assistant", "content": _answer(stored, t, turn)})
    return messages


def _plain(message: Message) -> Example:
    named = {} if message.name is None else {"name": message.name}
    return {"role": message.role, "content": message.content, **named}


def _answer(stored: StoredGroup, t: int, turn: int) -> str:
    """An answer without the stop token it may end with; a chat template puts one there again."""
    said, last = stored.texts[t][turn].said, stored.group.trees[t].turns[turn].action[-1]
    if last in stored.special:
        said = said.removesuffix(stored.pieces[last]).rstrip(" ")
    return said


def _tools(tree: Tree, turn: int) -> Example:
    first, *_ = tree.path(turn)
    tools = [json.loads(text) for message in tree.turns[first].heard for text in message.tools]
    return {"tools": tools} if tools else {}

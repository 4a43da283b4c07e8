"""Random trees with everything a tree can hold, next to a naive account of the same."""

import random
from collections import Counter
from dataclasses import replace
from typing import NamedTuple

from hypothesis import strategies as st

from retrograde.data.seeds import derived
from retrograde.data.tree import ROOT_PARENT, End, Group, Tree, Turn, shared_length
from retrograde.rollouts.plans import NEW_TREE, Moment

Ids = tuple[int, ...]

ids = st.lists(st.integers(0, 3), min_size=1, max_size=4).map(tuple)
rewards = st.sampled_from((0.0, 0.25, 0.5, 1.0))


class Remembered(NamedTuple):
    """A tree, and for each turn what it was shown and what was said up to it, in full."""

    tree: Tree
    contexts: list[Ids]
    histories: list[Ids]


@st.composite
def remembered(draw, most_turns=12):
    """A trunk and siblings with continuations, under a context policy drawn at random."""
    window = draw(st.sampled_from(("full", "window", "last")))
    length = draw(st.integers(1, 4))
    parents = [ROOT_PARENT, *range(length - 1)]
    rounds = [0] * length
    while len(parents) < most_turns and draw(st.booleans()):
        grown_in = rounds[-1] + 1
        behind = draw(st.sampled_from([ROOT_PARENT, *range(length - 1)]))
        for _ in range(draw(st.integers(1, 3))):
            parents.append(behind)
            rounds.append(grown_in)
            for _ in range(draw(st.integers(0, 2))):
                parents.append(len(parents) - 1)
                rounds.append(grown_in)
    return account(draw, parents, rounds, window)


def account(draw, parents, rounds, window):
    turns, contexts, histories = [], [], []
    opening = draw(ids)
    for i, (parent, grown_in) in enumerate(zip(parents, rounds, strict=True)):
        action, observed = draw(ids), draw(ids)
        if parent == ROOT_PARENT:
            before, context, history, observed = (), opening, opening, opening
        else:
            said = turns[parent].action
            before = contexts[parent] + said
            history = histories[parent] + said + observed
            kept = {"full": before, "window": opening + said[-1:], "last": ()}[window]
            context = kept + observed
        shared = shared_length(before, context)
        leaf = i not in parents
        ends = (End.FINISHED, End.TRUNCATED, End.FAILED)
        end = draw(st.sampled_from(ends)) if leaf else None
        turns.append(
            Turn(
                parent=parent,
                shared=shared,
                fresh=context[shared:],
                observation=observed,
                action=action,
                logprobs=tuple(-0.25 * (token + 1) for token in action),
                grown_in=grown_in,
                policy_version=grown_in,
                reward=0.0 if end is End.FAILED else draw(rewards),
                end=end,
            )
        )
        contexts.append(context)
        histories.append(history)
    return Remembered(Tree(tuple(turns)), contexts, histories)


trees = remembered().map(lambda account: account.tree)
groups = st.lists(trees, min_size=1, max_size=3).map(lambda grown: Group("t", tuple(grown)))


def grown_on_paper(plan, seed, *, tasks=2, longest=4, most_rounds=40):
    """Every round of a plan on worlds made up from a seed; what a plan must not do is asserted.

    The world's part is what `Grower` does: a fork needs a boundary that was kept or a leaf that
    was stopped, and what nobody else goes on from is used up.
    """
    chance = random.Random(seed)
    groups, kept, behind, rounds = [Group(f"t{i}") for i in range(tasks)], set(), Counter(), []
    for done in range(most_rounds):
        moment = Moment(tasks, derived(seed, done))
        forks = plan(groups, done, moment)
        assert forks == plan(groups, done, moment)
        if not any(forks):
            return groups
        assert len(forks) == tasks
        groups = [
            _group_on_paper(g, group, wanted, done, longest, (kept, behind, chance))
            for g, (group, wanted) in enumerate(zip(groups, forks, strict=True))
        ]
        rounds.append(forks)
        assert plan.forks or all(times == 1 for times in behind.values())
    raise AssertionError(f"the plan still grows after {most_rounds} rounds: {rounds[-1]}")


def _group_on_paper(g, group, forks, done, longest, world):
    kept, behind, chance = world
    trees = [list(tree.turns) for tree in group.trees]
    wanted_at = Counter((f.tree, f.parent) for f in forks for _ in range(f.answers))
    for fork in forks:
        for _ in range(fork.answers):
            t = fork.tree
            if t == NEW_TREE:
                trees.append([])
                t = len(trees) - 1
            else:
                place = (g, t, fork.parent)
                assert place in kept, f"no boundary at {place}"
                _reopened(trees[t], place, wanted_at[t, fork.parent] == 1, kept)
            behind[g, t, fork.parent] += 1
            _rollout_on_paper((g, t), trees[t], fork, done, longest, (kept, chance))
    return Group(group.task, tuple(Tree(tuple(turns)) for turns in trees))


def _reopened(turns, place, alone, kept):
    parent = place[2]
    if parent == ROOT_PARENT:
        return
    end = turns[parent].end
    assert end in (None, End.STOPPED), f"turn {parent} ended: {end}"
    turns[parent] = replace(turns[parent], end=None)
    if alone and end is End.STOPPED:
        kept.discard(place)


def _depth(turns, parent):
    """How many turns come before an answer behind `parent`."""
    return 0 if parent == ROOT_PARENT else 1 + _depth(turns, turns[parent].parent)


def _rollout_on_paper(where, turns, fork, done, longest, world):
    kept, chance = world
    parent, end, taken = fork.parent, None, 0
    while end is None:
        if fork.keep:
            kept.add((*where, parent))
        taken += 1
        if _depth(turns, parent) + 1 == longest or chance.random() < 0.3:
            end = chance.choice((End.FINISHED, End.FINISHED, End.TRUNCATED, End.FAILED))
        elif taken == fork.turns:
            end = End.STOPPED
        turns.append(
            Turn(
                parent=parent,
                shared=0,
                fresh=(1,),
                observation=(1,),
                action=(2,),
                logprobs=(-chance.random(),),
                grown_in=done,
                policy_version=0,
                reward=0.0 if end is End.FAILED else float(chance.randint(0, 1)),
                end=end,
            )
        )
        parent = len(turns) - 1
        if end is End.STOPPED:
            kept.add((*where, parent))

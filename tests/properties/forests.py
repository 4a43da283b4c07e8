"""Random trees with everything a tree can hold, next to a naive account of the same."""

from typing import NamedTuple

from hypothesis import strategies as st

from retrograde.data.tree import ROOT_PARENT, End, Group, Tree, Turn, shared_length

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

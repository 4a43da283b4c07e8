"""Trees drawn by hand, and what a credit says of them."""

from retrograde.data.tree import ROOT_PARENT, End, Group, Tree, Turn

ROOT, DONE, LOST, STOPPED = ROOT_PARENT, End.FINISHED, End.FAILED, End.STOPPED


def turn(parent, reward=0.0, end=None, grown_in=0, *, nll=1.0, tokens=1):
    """A turn of `tokens` action tokens with a mean negative log-probability of `nll`."""
    return Turn(
        parent=parent,
        shared=0,
        fresh=(9,),
        observation=(9,),
        action=tuple(range(tokens)),
        logprobs=(-nll,) * tokens,
        grown_in=grown_in,
        policy_version=0,
        reward=reward,
        end=end,
    )


def chain(length, reward=0.0, end=DONE):
    """An unbranched rollout."""
    return Tree((*(turn(i - 1) for i in range(length - 1)), turn(length - 2, reward, end)))


def group(*trees):
    return Group("t", tuple(tree if isinstance(tree, Tree) else Tree(tree) for tree in trees))


def visited(credit, judged, grown_in=1):
    """Advantage of each visit that trains, by tree, leaf and turn."""
    return {
        (t, leaf, visit): advantage
        for t, (tree, (advantages, trains, *_)) in enumerate(
            zip(judged.trees, credit(judged, grown_in), strict=True)
        )
        for (leaf, visit), advantage, trained in zip(tree.visits, advantages, trains, strict=True)
        if trained
    }


def by_turn(credit, judged, grown_in=1):
    """Advantage of each turn that trains, by tree and turn; all its visits agree."""
    found = {}
    for (t, _, visit), advantage in visited(credit, judged, grown_in).items():
        assert found.setdefault((t, visit), advantage) == advantage
    return found


def by_leaf(credit, judged, grown_in=1):
    """Advantage of each rollout that trains, by tree and leaf; all its turns agree."""
    found = {}
    for (t, leaf, _), advantage in visited(credit, judged, grown_in).items():
        assert found.setdefault((t, leaf), advantage) == advantage
    return found

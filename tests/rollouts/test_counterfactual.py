"""Which turns get alternatives, on trees written by hand; and that they really grow there."""

from dataclasses import replace

import pytest

from retrograde.data.tree import ROOT_PARENT, End, Group, Tree, Turn
from retrograde.environments.hop import Hop
from retrograde.policies.scripted import ScriptedPolicy
from retrograde.rollouts.counterfactual import Counterfactual, most_surprising
from retrograde.rollouts.plans import NEW_TREE, Fork

from .worlds import Watched, graded, grower, grown, ids


def chain(*logprobs, end=End.FINISHED):
    """One turn for each tuple of log-probabilities."""
    turns = tuple(
        Turn(i - 1, 0, (1,), (1,), (2,) * len(logp), logp, 0, 0) for i, logp in enumerate(logprobs)
    )
    return Tree((*turns[:-1], replace(turns[-1], end=end)))


# Mean surprise a token: tree 0: 1, 3; tree 1: .5, 2, 2. Summed, the first turn of tree 1 would
# be the second most surprising, 6 * .5 = 3.
GROUP = Group("a", (chain((-1.0,), (-2.0, -4.0)), chain((-0.5,) * 6, (-2.0,), (-3.0, -1.0))))


def test_the_most_surprising_turns_of_a_group_a_token():
    assert most_surprising(GROUP, 1) == [(0, 1)]
    assert most_surprising(GROUP, 4) == [(0, 1), (1, 1), (1, 2), (0, 0)]
    assert len(most_surprising(GROUP, 99)) == 5


def test_turns_of_failed_rollouts_are_left_out():
    failed = chain((-9.0,), (-9.0,), end=End.FAILED)
    assert most_surprising(Group("a", (*GROUP.trees, failed)), 1) == [(0, 1)]


def test_round_1_forks_behind_the_past_of_what_was_selected():
    plan = Counterfactual(rollouts=2, selected=2, alternatives=3)
    assert plan.forks
    assert plan([Group("a"), Group("b")], 0) == [[Fork(NEW_TREE, ROOT_PARENT, keep=True)] * 2] * 2
    first = Group("b", (chain((-1.0,)), chain((-2.0,))))
    assert plan([GROUP, first], 1) == [
        [Fork(0, 0, 3, turns=1), Fork(1, 0, 3, turns=1)],
        [Fork(1, ROOT_PARENT, 3, turns=1), Fork(0, ROOT_PARENT, 3, turns=1)],
    ]
    assert plan([GROUP, first], 2) == [[], []]


@pytest.mark.parametrize("options", [{"alternatives": 0}, {"selected": 0}])
def test_without_alternatives_nothing_is_kept_or_forked(options):
    plan = Counterfactual(rollouts=2, **options)
    assert not plan.forks
    assert plan([Group("a")], 0) == [[Fork(NEW_TREE, ROOT_PARENT)] * 2]
    assert plan([GROUP], 1) == [[]]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rollouts": 1}, r"rollouts: at least 2 .* got 1"),
        ({"selected": -1}, r"selected: at least 0 .* got -1"),
        ({"alternatives": -1}, r"alternatives: at least 0 .* got -1"),
    ],
)
def test_bad_options_are_refused(options, said):
    with pytest.raises(ValueError, match=said):
        Counterfactual(**options)


async def test_alternatives_share_the_past_take_one_turn_and_are_left_there():
    names = ("Ada", "Ben", "Carl", "Dora")
    world = Watched(Hop(hops=2), turned=graded)
    policy = ScriptedPolicy(lambda _c, seed: ids(f"search {names[seed % 4]} friend"))
    growing = grower(world, policy)
    plan = Counterfactual(rollouts=3, selected=4, alternatives=2)
    (group,) = await grown(growing, plan, ["train-0"])
    await growing.forget()
    world.book.check()
    new = [(t, i) for t, tree in enumerate(group.trees) for i, u in enumerate(tree.turns)
           if u.grown_in == 1]  # fmt: skip
    assert len(new) == 4 * 2
    for t, i in new:
        tree = group.trees[t]
        twin = next(j for j, u in enumerate(tree.turns) if u.parent == tree.turns[i].parent)
        assert tree.context(i) == tree.context(twin)
        assert i in tree.leaves
        assert tree.turns[i].score is not None
        last = tree.depths[i] == 2
        assert tree.turns[i].end is (End.TRUNCATED if last else End.STOPPED)

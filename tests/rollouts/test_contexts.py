"""What a tree says the policy was shown is what the policy was shown."""

import random
from collections import Counter

import pytest

from retrograde.data.rows import Judgement, View, rows_of
from retrograde.data.tree import ROOT_PARENT
from retrograde.data.wire import group_from_json, group_to_json
from retrograde.environments.hop import ENTITIES, RELATIONS, Hop
from retrograde.environments.lake import DIRECTIONS, Lake
from retrograde.policies.scripted import ScriptedPolicy
from retrograde.rollouts.plans import ReverseTree

from .worlds import SpyPolicy, chat, grower, grown, ids

CONTEXTS = ("full", "drop_thinking", "window", "markov")


def speaker(context, seed):
    """Sensible and senseless answers, with and without thoughts, stop tokens now and then lost."""
    del context
    chance = random.Random(seed)
    said = chance.choice(
        (
            f"search {chance.choice(ENTITIES)} {chance.choice(RELATIONS)}",
            f"go {chance.choice(tuple(DIRECTIONS))}",
            "search search",
        )
    )
    thought = chance.choice(("", "<think> 2 </think> ", "<think> 1 </think> <think> 0 </think> "))
    words = ids(thought + said)
    return words if chance.random() < 0.7 else words[:-1]


def worlds(context):
    return [Hop(context=context), Lake(context=context, slip=True)]


@pytest.fixture(params=[(w, c) for w in (0, 1) for c in CONTEXTS], ids=str)
def world(request):
    which, context = request.param
    return worlds(context)[which]


@pytest.fixture
async def forest(world):
    spy = SpyPolicy(ScriptedPolicy(speaker))
    tasks = [world.task("train", i) for i in range(3)]
    groups = await grown(grower(world, spy), ReverseTree(2, 3), tasks)
    assert max(turn.grown_in for group in groups for tree in group.trees for turn in tree.turns) > 2
    return groups, spy


async def test_stored_ids_are_the_ids_the_policy_was_given(forest):
    groups, spy = forest
    stored = Counter(
        (tree.context(i), turn.action)
        for group in groups
        for tree in group.trees
        for i, turn in enumerate(tree.turns)
    )
    assert stored == spy.given()


async def test_they_still_are_when_read_back_from_disk(forest):
    groups, _ = forest
    assert [group_from_json(group_to_json(group)) for group in groups] == groups


async def test_rows_carry_the_ids_the_policy_was_given(forest, world):
    groups, spy = forest
    judged = [
        [Judgement((1.0,) * len(t.visits), (True,) * len(t.visits)) for t in group.trees]
        for group in groups
    ]
    given = set(spy.given())
    exact = rows_of(groups, judged)
    assert all((row.context, row.action) in given for row in exact)
    flat = rows_of(groups, judged, View.FLAT_SAMPLED)
    wrong = sum((row.context, row.action) not in given for row in flat)
    assert (wrong == 0) == (world.context == "full")


async def test_the_flat_history_is_the_context_if_everything_is_kept(forest, world):
    groups, _ = forest
    trees = [tree for group in groups for tree in group.trees]
    later = [(t, i) for t in trees for i in range(len(t.turns)) if t.turns[i].parent != ROOT_PARENT]
    same = [tree.history(i) == tree.context(i) for tree, i in later]
    assert any(
        tree.turns[tree.turns[i].parent].action[-1] != chat().end_of_turn for tree, i in later
    )  # answers that were cut off are among them
    if world.context == "full":
        assert all(same)
        assert all(tree.appends(i) for tree, i in later)
    else:
        assert not all(same)


async def test_siblings_were_shown_what_the_trunk_was_shown(forest):
    groups, _ = forest
    forked = 0
    for tree in (tree for group in groups for tree in group.trees):
        for turn in tree.trunk:
            parent = tree.turns[turn].parent
            siblings = [
                i
                for i, other in enumerate(tree.turns)
                if other.parent == parent and other.grown_in > tree.turns[turn].grown_in
            ]
            assert len(siblings) == 3
            assert {tree.context(i) for i in siblings} == {tree.context(turn)}
            forked += 1
    assert forked > 10

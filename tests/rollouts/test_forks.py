"""Forks: siblings have one past and futures of their own, and nobody disturbs anybody."""

from dataclasses import replace

import pytest

from retrograde.data.message import Message
from retrograde.data.tree import ROOT_PARENT, End, Group
from retrograde.environments.hop import Hop
from retrograde.environments.lake import Lake
from retrograde.environments.protocol import Forking
from retrograde.policies.scripted import ScriptedPolicy
from retrograde.rollouts.limits import Limits
from retrograde.rollouts.line import Line, ReplayDivergedError
from retrograde.rollouts.plans import NEW_TREE, Fork, ReverseTree

from .test_contexts import speaker
from .worlds import Watched, chat, grower, grown, ids

WALK = ("go east", "go south", "go nowhere", "go west", "go north", "go south", "go east")
LOOK = ("search Ada friend", "search Ben boss", "nonsense")
SLIPPING, HOPPING = (Lake(slip=True, turns=16), WALK), (Hop(hops=4), LOOK)


def steady(text):
    return ScriptedPolicy(lambda _context, _seed: ids(text))


async def played(line, words):
    return [await line.act(text) for text in words]


async def opened(world, task="train-3", seed=7):
    return await Line.open(world, task, seed, Limits(turn_seconds=5.0))


async def long_walk(world, words):
    """A task and seed at which all the words can be said."""
    for i in range(200):
        line = await opened(world, f"train-{i}")
        for text in words:
            if (await line.act(text)).end is not None:
                break
        else:
            return f"train-{i}"
    raise AssertionError("none found")


@pytest.mark.parametrize(("world", "words"), [SLIPPING, HOPPING])
async def test_a_fork_never_disturbs_its_original(world, words):
    task = await long_walk(world, words)
    undisturbed = await played(await opened(world, task), words)
    for at in range(len(words)):
        line = await opened(world, task)
        before = await played(line, words[:at])
        copies = [await line.fork(seed) for seed in range(3)]
        for copy in copies:
            await copy.act("go north")
            await copy.close()
        after = await played(line, words[at:])
        assert before + after == undisturbed
        assert line.said == list(words)


@pytest.mark.parametrize(("world", "words"), [SLIPPING, HOPPING])
async def test_nor_is_it_disturbed_by_its_original(world, words):
    task = await long_walk(world, words)
    line = await opened(world, task)
    await played(line, words[:1])
    first, second = await line.fork(5), await line.fork(5)
    alone = await played(first, words[1:3])
    await played(line, words[1:])
    assert await played(second, words[1:3]) == alone
    assert second.said == list(words[:3])


async def test_siblings_on_slippery_ice_get_different_futures():
    tree = await _siblings(slip=True)
    assert len({_future(tree, i) for i in _firsts(tree)}) > 1


async def test_siblings_on_dry_ice_get_one():
    tree = await _siblings(slip=False)
    assert len({_future(tree, i) for i in _firsts(tree)}) == 1


async def _siblings(*, slip):
    growing = grower(Lake(slip=slip), steady("go north"))
    for i in range(20):
        groups = await grown(growing, ReverseTree(1, 8), [f"train-{i}"])
        (tree,) = groups[0].trees
        if len(tree.trunk) > 2:
            assert len({tree.context(j) for j in _firsts(tree)}) == 1
            return tree
    raise AssertionError("every trunk fell into a hole at once")


def _firsts(tree):
    last = max(turn.grown_in for turn in tree.turns)
    return [
        i
        for i, turn in enumerate(tree.turns)
        if turn.parent == ROOT_PARENT and turn.grown_in == last
    ]


def _future(tree, turn):
    """All that is heard after a turn, along its only path."""
    heard = [tree.turns[turn].reward]
    while tree.children[turn]:
        (turn,) = tree.children[turn]
        heard.append((tree.turns[turn].observation, tree.turns[turn].reward))
    return tuple(heard)


@pytest.mark.parametrize("world", [Lake(slip=True), Hop()])
async def test_a_trunk_is_the_same_whether_its_boundaries_are_kept_or_not(world):
    trunks = []
    for keep in (False, True):
        growing = grower(world, ScriptedPolicy(speaker))
        plant = [[Fork(NEW_TREE, ROOT_PARENT, keep=keep)]] * 4
        tasks = [Group(f"train-{i}") for i in range(4)]
        trunks.append(await growing.grow(tasks, plant, 0, 1))
        await growing.forget()
    assert trunks[0] == trunks[1]


@pytest.mark.parametrize("world", [Lake(slip=True), Hop()])
async def test_later_rounds_leave_what_was_grown_as_it_was(world):
    growing = grower(world, ScriptedPolicy(speaker))
    plan, groups = ReverseTree(2, 3), [Group("train-0"), Group("train-1")]
    for done in range(20):
        forks = plan(groups, done)
        if not any(forks):
            break
        before, groups = groups, await growing.grow(groups, forks, done, 1)
        for old, new in zip(before, groups, strict=True):
            for tree, longer in zip(old.trees, new.trees, strict=False):
                assert longer.turns[: len(tree.turns)] == tree.turns
    assert done > 3


async def test_a_boundary_is_what_its_trunk_was_shown():
    growing = grower(Hop(), ScriptedPolicy(speaker))
    (group,) = await grown(growing, ReverseTree(2, 2), ["train-0"], rounds=1)
    assert len(growing._boundaries) == sum(len(tree.trunk) for tree in group.trees)
    for (_, tree, parent), boundary in growing._boundaries.items():
        trunk = group.trees[tree]
        (turn,) = [i for i, t in enumerate(trunk.turns) if t.parent == parent]
        assert boundary.standing.context == trunk.context(turn)
        if parent != ROOT_PARENT:
            assert boundary.standing.before == trunk.context(parent) + trunk.turns[parent].action
            assert boundary.line.said == [
                chat().decode(trunk.turns[i].action) for i in trunk.path(parent)
            ]


async def test_only_kept_boundaries_can_be_forked():
    growing = grower(Hop(), steady("search Ada friend"))
    groups = await growing.grow([Group("train-0")], [[Fork(NEW_TREE, ROOT_PARENT)]], 0, 1)
    with pytest.raises(LookupError, match="keep=True"):
        await growing.grow(groups, [[Fork(0, ROOT_PARENT, 2)]], 1, 1)


async def test_a_world_without_chance_can_be_replayed():
    by_fork, by_replay = Watched(Hop()), Watched(Hop(), forking=Forking.REPLAY)
    forests = []
    for world in (by_fork, by_replay):
        growing = grower(world, ScriptedPolicy(speaker))
        forests.append(await grown(growing, ReverseTree(2, 3), ["train-0", "train-1"]))
        await growing.forget()
        world.book.check()
    assert forests[0] == forests[1]


def liar():
    """Says another thing at the second turn of every later episode."""

    def turned(episode, text, observation):
        if episode.number > 1 and len(episode.said) == 2 and observation.end is None:
            return replace(observation, messages=(Message("user", "Found: Vera"),))
        return observation

    return Watched(Hop(hops=4), turned=turned, forking=Forking.REPLAY)


async def test_a_replay_that_says_something_else_is_found_out():
    line = await opened(liar())
    await played(line, ["search Ada friend"])
    await (await line.fork(1)).close()  # so far it has told the truth
    await played(line, ["search Ada boss"])
    with pytest.raises(ReplayDivergedError, match=r"search Ada boss.*Vera.*Forking.REPLAY"):
        await line.fork(1)
    await line.close()
    line.environment.book.check()  # the twin that was found out is closed as well


async def test_a_rollout_that_cannot_be_replayed_costs_the_siblings_behind_it(caplog):
    # Every later episode is lied to about its second action, so a boundary can be kept that has
    # none or one action behind it, and none of the 3 others of a trunk of 5 turns.
    world = liar()
    growing = grower(world, steady("search Ada friend"))
    (group,) = await grown(growing, ReverseTree(1, 2), ["train-0"])
    (tree,) = group.trees
    failed = [i for i in tree.leaves if tree.turns[i].end is End.FAILED]
    assert len(tree.trunk) == 5
    assert growing.counts["failed/ReplayDivergedError"] == growing.counts["failed_at/replay"] == 3
    assert len(failed) == growing.counts["ended/failed"] == 3 * 2
    assert growing.counts["dropped/ReplayDivergedError"] == 3 * 2
    assert all(not tree.turns[i].action for i in failed)
    assert "after 'search Ada friend' it said" in caplog.text
    await growing.forget()
    world.book.check()


async def test_what_can_neither_fork_nor_replay_is_refused():
    line = await opened(Watched(Hop(), forking=Forking.NONE))
    with pytest.raises(ValueError, match="hop can neither fork nor replay"):
        await line.fork(1)


async def test_it_can_still_be_played_by_methods_that_do_not_fork():
    world = Watched(Hop(), forking=Forking.NONE)
    growing = grower(world, ScriptedPolicy(speaker))
    plant = [[Fork(NEW_TREE, ROOT_PARENT)] * 3]
    (group,) = await growing.grow([Group("train-0")], plant, 0, 1)
    assert len(group.trees) == 3
    world.book.check()


async def test_every_episode_is_closed_once():
    for world in (Watched(Hop()), Watched(Lake(slip=True))):
        for continuations in (0, 1, 2):
            growing = grower(world, ScriptedPolicy(speaker))
            for seed in range(2):  # the second iteration closes what the first one kept
                plan = ReverseTree(2, 3, continuations)
                await grown(growing, plan, ["train-0", "train-1"], seed=seed)
            await growing.forget()
        world.book.check()

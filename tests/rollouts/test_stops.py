"""Stops: a rollout waits after so many turns, and a later round goes on as if it had not."""

import logging
from collections import Counter
from dataclasses import replace

import pytest

from retrograde.credit.group_relative import GroupRelative
from retrograde.data.rows import rows_of
from retrograde.data.tree import ROOT_PARENT, End, Group
from retrograde.data.wire import group_from_json, group_to_json
from retrograde.environments.hop import Hop
from retrograde.environments.lake import Lake
from retrograde.environments.protocol import Forking
from retrograde.policies.scripted import ScriptedPolicy
from retrograde.rollouts.plans import NEW_TREE, Fork

from .test_contexts import CONTEXTS, speaker
from .worlds import SpyPolicy, Watched, graded, grower, ids

PLANT = Fork(NEW_TREE, ROOT_PARENT)
STOP = Fork(NEW_TREE, ROOT_PARENT, turns=1)


def looking(_context, _seed):
    return ids("search Ada friend")


def hop(**options):
    """Four hops: nobody who only looks is ever done, and five turns are all there are."""
    return Watched(Hop(hops=4), **options)


async def rounds(growing, *forks, task="train-0", seed=1):
    """One group, grown by a list of forks for each round."""
    groups = [Group(task)]
    for grown_in, wanted in enumerate(forks):
        groups = await growing.grow(groups, [wanted], grown_in, seed)
    return groups[0]


def leaf_ends(group):
    return [[tree.turns[leaf].end for leaf in tree.leaves] for tree in group.trees]


def heard(tree):
    """What was shown, said and earned, turn by turn; when it was grown is left out."""
    return [replace(turn, grown_in=0) for turn in tree.turns]


async def test_a_rollout_stops_after_the_turns_it_was_given():
    growing = grower(hop(), ScriptedPolicy(looking))
    group = await rounds(growing, [STOP, replace(STOP, turns=3), PLANT])
    assert [len(tree.turns) for tree in group.trees] == [1, 3, 5]
    assert leaf_ends(group) == [[End.STOPPED], [End.STOPPED], [End.TRUNCATED]]
    assert growing.counts["ended/stopped"] == 2


async def test_what_ends_by_itself_at_that_turn_has_ended():
    growing = grower(Watched(Hop()), ScriptedPolicy(lambda _context, _seed: ids("answer Ada")))
    group = await rounds(growing, [STOP])
    assert leaf_ends(group) == [[End.FINISHED]]
    with pytest.raises(LookupError, match="group 0, tree 0 has no kept boundary behind turn 0"):
        await growing.grow([group], [[Fork(0, 0)]], 1, 1)


@pytest.mark.parametrize("turns", [1, 2, 3])
@pytest.mark.parametrize("context", CONTEXTS)
async def test_a_stop_is_not_felt(context, turns):
    # Slippery ice: a copy would have another future. The policy's words hang on the past alone.
    def walker(shown, _seed):
        return ids(("go south", "<think> 1 </think> go east")[sum(shown) % 2])

    def world():
        return Watched(Lake(slip=True, context=context))

    at_once = await rounds(grower(world(), ScriptedPolicy(walker)), [PLANT], task="train-5")
    (whole,) = at_once.trees
    assert len(whole.turns) > turns
    stopping = world()
    growing = grower(stopping, ScriptedPolicy(walker))
    groups = [Group("train-5")]
    forks = [replace(STOP, turns=turns)]
    for grown_in in range(20):
        groups = await growing.grow(groups, [forks], grown_in, 1)
        (tree,) = groups[0].trees
        if tree.turns[-1].end is not End.STOPPED:
            break
        forks = [Fork(0, len(tree.turns) - 1, turns=turns)]
    assert heard(tree) == heard(whole)
    assert [turn.grown_in for turn in tree.turns] == [i // turns for i in range(len(tree.turns))]
    assert stopping.book.begun == 1  # one episode all along
    stopping.book.check()


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("once", [True, False])
async def test_contexts_after_a_stop_are_the_ids_the_policy_was_given(context, once):
    spy = SpyPolicy(ScriptedPolicy(speaker))
    growing = grower(Hop(hops=4, context=context), spy)
    groups = await growing.grow([Group("train-0")], [[STOP] * 6], 0, 1)
    answers = 1 if once else 3
    for grown_in in (1, 2):
        forks = [
            Fork(t, leaf, answers, turns=2)
            for t, tree in enumerate(groups[0].trees)
            for leaf in tree.leaves
            if tree.turns[leaf].end is End.STOPPED
        ]
        assert forks
        groups = await growing.grow(groups, [forks], grown_in, 1)
    stored = Counter(
        (tree.context(i), turn.action)
        for tree in groups[0].trees
        for i, turn in enumerate(tree.turns)
    )
    assert stored == spy.given()
    assert [group_from_json(group_to_json(group)) for group in groups] == groups


async def test_a_stopped_turn_that_is_gone_on_from_has_no_end():
    growing = grower(hop(), ScriptedPolicy(looking))
    group = await rounds(growing, [STOP, STOP], [Fork(1, 0)])
    first, second = group.trees
    assert [turn.end for turn in first.turns] == [End.STOPPED]  # nobody went on: it stays a leaf
    assert [turn.end for turn in second.turns] == [None] * 4 + [End.TRUNCATED]


async def test_several_continuations_are_copies_that_do_not_disturb_each_other():
    world = Watched(Lake(slip=True), turned=graded)
    growing = grower(world, ScriptedPolicy(lambda _context, _seed: ids("go south")))
    for i in range(20):
        group = await rounds(growing, [STOP], task=f"train-{i}")
        if leaf_ends(group) == [[End.STOPPED]]:
            break
    before = world.book.begun
    (group,) = await growing.grow([group], [[Fork(0, 0, 8)]], 1, 1)
    (tree,) = group.trees
    assert len(tree.children[0]) == 8
    assert world.book.begun == before + 8
    assert {tree.context(i) for i in tree.children[0]} == {tree.context(1)}
    # All say the same on slippery ice: copies with one future would stay alike.
    assert len({tree.turns[leaf].parent for leaf in tree.leaves}) > 1
    assert len({tree.turns[leaf].observation for leaf in tree.leaves}) > 1
    await growing.forget()
    world.book.check()


@pytest.mark.parametrize("keep", [True, False])
async def test_a_stop_that_several_went_on_from_is_a_boundary_like_others(keep):
    world = hop()
    growing = grower(world, ScriptedPolicy(speaker))
    several = Fork(0, 0, 2, keep=keep)
    group = await rounds(growing, [STOP], [several], [Fork(0, 0)], [Fork(0, 0)])
    assert len(group.trees[0].children[0]) == 4
    await growing.forget()
    world.book.check()


async def test_a_stop_that_one_went_on_from_is_used_up_unless_it_is_kept():
    world = hop()
    growing = grower(world, ScriptedPolicy(speaker))
    group = await rounds(growing, [STOP], [Fork(0, 0, keep=True)], [Fork(0, 0)])
    assert len(group.trees[0].children[0]) == 2
    with pytest.raises(LookupError, match="no kept boundary behind turn 0"):
        await rounds(growing, [STOP], [Fork(0, 0)], [Fork(0, 0)])
    await growing.forget()


async def test_two_forks_behind_one_stop_in_one_round_do_not_share_an_episode():
    world = hop()
    growing = grower(world, ScriptedPolicy(speaker))
    group = await rounds(growing, [STOP], [Fork(0, 0), Fork(0, 0, turns=2)])
    assert len(group.trees[0].children[0]) == 2
    await growing.forget()
    world.book.check()


async def test_every_episode_is_closed_once_even_if_nobody_goes_on():
    world = hop()
    growing = grower(world, ScriptedPolicy(looking))
    for seed in range(2):  # the second iteration closes what the first one left waiting
        await rounds(growing, [replace(STOP, keep=True)] * 3, [Fork(1, 0, 3, keep=True)], seed=seed)
    await growing.forget()
    world.book.check()


async def test_a_place_is_kept_once_however_many_answer_it():
    # A trunk of 5 turns keeps 5 boundaries. Two siblings of turn 2 start at one of them and then
    # pass 2 places of their own each.
    world = hop()
    growing = grower(world, ScriptedPolicy(looking))
    await rounds(growing, [replace(PLANT, keep=True)], [Fork(0, 1, 2, keep=True)])
    assert len(growing._boundaries) == 5 + 2 * 2
    assert world.book.begun - sum(world.book.closed.values()) == 5 + 2 * 2
    await growing.forget()
    world.book.check()


async def test_a_replayed_world_is_replayed_only_for_copies():
    for answers, begun in ((1, 1), (3, 4)):
        by_replay, by_fork = hop(forking=Forking.REPLAY), hop()
        groups = []
        for world in (by_replay, by_fork):
            growing = grower(world, ScriptedPolicy(speaker))
            groups.append(await rounds(growing, [replace(STOP, turns=2)], [Fork(0, 1, answers)]))
            await growing.forget()
            world.book.check()
        assert groups[0] == groups[1]
        assert by_replay.book.begun == begun


async def test_what_can_neither_fork_nor_replay_can_still_be_stopped():
    world = hop(forking=Forking.NONE)
    growing = grower(world, ScriptedPolicy(looking))
    group = await rounds(growing, [STOP] * 2, [Fork(0, 0, turns=2), Fork(1, 0)], [Fork(0, 2)])
    assert [len(tree.turns) for tree in group.trees] == [5, 5]
    world.book.check()
    with pytest.raises(ValueError, match="hop can neither fork nor replay"):
        await rounds(growing, [STOP], [Fork(0, 0, 2)])


def broken(when):
    def turned(episode, _text, observation):
        if when(episode):
            raise OSError("no connection")
        return observation

    return hop(turned=turned)


async def test_a_continuation_that_fails_costs_itself_alone(caplog):
    world = broken(lambda episode: len(episode.said) == 2 and episode.number == 1)
    growing = grower(world, ScriptedPolicy(looking))
    with caplog.at_level(logging.WARNING, "retrograde.rollouts.grow"):
        # Round 1 is this one rollout, and it fails: no reason to stop a run.
        group = await rounds(growing, [STOP, PLANT], [Fork(0, 0)])
    assert leaf_ends(group) == [[End.FAILED], [End.TRUNCATED]]
    judged = GroupRelative()(group, 1)
    assert [set(j.trains_V) for j in judged] == [{False}, {True}]
    await growing.forget()
    world.book.check()


async def test_if_nothing_ever_succeeded_the_run_stops():
    growing = grower(broken(lambda episode: len(episode.said) == 2), ScriptedPolicy(looking))
    with pytest.raises(RuntimeError, match=r"all 2 rollouts of round 1 failed in hop"):
        await rounds(growing, [STOP] * 2, [Fork(0, 0), Fork(1, 0)])


async def test_a_stopped_leaf_trains_on_what_was_earned_so_far():
    growing = grower(hop(turned=graded), ScriptedPolicy(speaker))
    group = await rounds(growing, [STOP] * 4)
    assert {end for ends in leaf_ends(group) for end in ends} == {End.STOPPED}
    returns = [tree.returns[0] for tree in group.trees]
    assert len(set(returns)) > 1
    mean = sum(returns) / len(returns)
    rows = rows_of([group], [GroupRelative(scale=False)(group, 0)])
    assert [row.advantage for row in rows] == pytest.approx([r - mean for r in returns])


@pytest.mark.parametrize("fork", [Fork(0, 7), Fork(3, 0), Fork(0, 7, turns=1)])
async def test_a_fork_at_a_turn_that_is_not_there_is_refused(fork):
    growing = grower(hop(), ScriptedPolicy(looking))
    with pytest.raises(LookupError, match=f"tree {fork.tree} has no kept boundary behind turn"):
        await rounds(growing, [STOP], [fork])
    await growing.forget()

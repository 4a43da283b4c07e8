"""A world that breaks costs a rollout, never a reward of 0."""

import asyncio
import logging
from dataclasses import replace

import pytest

from retrograde.credit.group_relative import GroupRelative
from retrograde.credit.sibling_mean import SiblingMean
from retrograde.data.rows import rows_of
from retrograde.data.tree import ROOT_PARENT, End, Group
from retrograde.environments.hop import Hop
from retrograde.environments.protocol import Observation
from retrograde.policies.scripted import ScriptedPolicy
from retrograde.rendering.history import Renderer
from retrograde.rollouts.plans import NEW_TREE, Fork, ReverseTree
from retrograde.trainer.evaluation import evaluate, valid_returns

from .test_contexts import speaker
from .worlds import Watched, chat, ended, graded, grower, grown, ids


def breaking(when, how=None):
    """A world that breaks in the turns a function names, and gives a reward in all others."""

    def turned(episode, text, observation):
        if when(episode, text):
            if how is not None:
                return how()
            raise OSError("no connection")
        return graded(episode, text, observation)

    return Watched(Hop(), turned=turned)


def every_third(episode, _text):
    return episode.number % 3 == 0 and len(episode.said) == 2


async def hang():
    await asyncio.sleep(60)


PLANT = [[Fork(NEW_TREE, ROOT_PARENT)] * 6]


async def planted(world, **options):
    growing = grower(world, ScriptedPolicy(speaker), **options)
    (group,) = await growing.grow([Group("train-0")], PLANT, 0, 1)
    return group, growing.counts


@pytest.mark.parametrize(
    ("world", "error"),
    [
        (breaking(every_third), "OSError"),
        (breaking(every_third, hang), "TimeoutError"),
        (breaking(every_third, lambda: Observation(())), "ValueError"),  # goes on, says nothing
        (breaking(every_third, lambda: Observation((), reward=float("nan"))), "ValueError"),
    ],
)
async def test_what_breaks_or_hangs_costs_one_rollout(world, error, caplog):
    with caplog.at_level(logging.WARNING, "retrograde.rollouts.grow"):
        group, counts = await planted(world, turn_seconds=0.1)
    assert ended([group])[End.FAILED] == 2
    assert counts["ended/failed"] == counts[f"failed/{error}"] == 2
    assert sum(number for name, number in counts.items() if name.startswith("ended/")) == 6
    assert error in caplog.text
    assert "hop, task train-0" in caplog.text
    world.book.check()


async def test_an_answer_of_no_token_costs_its_rollout_and_never_reaches_the_world(caplog):
    def script(context, seed):
        return () if seed % 5 == 0 else speaker(context, seed)

    world = Watched(Hop(), turned=graded)
    growing = grower(world, ScriptedPolicy(script))
    (group,) = await growing.grow([Group("train-0")], PLANT, 0, 1)
    silent = [turn for tree in group.trees for turn in tree.turns if not turn.action]
    assert silent
    assert all(turn.end is End.FAILED and turn.reward == 0 for turn in silent)
    assert growing.counts["failed/NoAnswerError"] == growing.counts["ended/failed"] == len(silent)
    assert "the policy answered with no token" in caplog.text
    for credit in (GroupRelative(), SiblingMean()):
        assert all(row.action for row in rows_of([group], [credit(group, 0)]))
    world.book.check()


async def test_what_failed_last_does_not_undo_what_went_well_before():
    # The last rollout still under way breaks, alone in its round: the others are there.
    world = breaking(lambda episode, _text: episode.number > 2)
    growing = grower(world, ScriptedPolicy(lambda _context, _seed: ids("search Ada friend")))
    plant = [[Fork(NEW_TREE, ROOT_PARENT, keep=True)]]
    groups = await growing.grow([Group("train-0")], plant, 0, 1)
    groups = await growing.grow(groups, [[Fork(0, 1)]], 1, 1)
    await growing.forget()
    assert ended(groups) == {End.FAILED: 1, End.TRUNCATED: 1}


async def test_a_failed_rollout_is_no_reward_of_zero():
    group, _ = await planted(breaking(every_third))
    returns = [tree.returns[tree.leaves[0]] for tree in group.trees]
    sound = [tree.turns[tree.leaves[0]].end is not End.FAILED for tree in group.trees]
    assert sound.count(False) == 2
    kept = [r for r, good in zip(returns, sound, strict=True) if good]
    assert valid_returns([group]) == kept
    judged = GroupRelative(scale=False)(group, 0)
    for judgement, good, value in zip(judged, sound, returns, strict=True):
        assert set(judgement.trains_V) == {good}
        if good:
            mean = sum(kept) / len(kept)
            assert judgement.advantage_V == pytest.approx([value - mean] * len(judgement.trains_V))


async def test_a_failed_sibling_neither_trains_nor_counts():
    world = breaking(lambda episode, _text: episode.number > 6 and episode.number % 5 == 0)
    growing = grower(world, ScriptedPolicy(speaker))
    (group,) = await grown(growing, ReverseTree(1, 6), ["train-0"], rounds=2)
    await growing.forget()
    world.book.check()
    (tree,) = group.trees
    (judgement,) = SiblingMean()(group, 1)
    rows = rows_of([group], [[judgement]])
    failed = {tree.turns[i].action for i in tree.leaves if tree.turns[i].end is End.FAILED}
    assert failed
    assert 0 < len(rows) < 6
    assert sum(row.advantage for row in rows) == pytest.approx(0)
    assert any(row.advantage for row in rows)


async def test_a_failed_trunk_can_still_be_improved_up_to_where_it_broke():
    world = breaking(lambda episode, _text: episode.number == 1 and len(episode.said) == 2)
    growing = grower(world, ScriptedPolicy(lambda _context, _seed: ids("search Ada friend")))
    plan = ReverseTree(2, 2)
    (group,) = await grown(growing, plan, ["train-0"])
    assert [len(tree.trunk) for tree in group.trees] == [2, 4]
    assert group.trees[0].turns[1].end is End.FAILED
    assert max(turn.grown_in for turn in group.trees[0].turns) == 4


async def test_if_everything_fails_the_run_stops():
    with pytest.raises(RuntimeError, match="all 6 rollouts of round 0 failed in hop"):
        await planted(breaking(lambda _episode, _text: True))


async def test_an_evaluation_leaves_failures_out_and_counts_them():
    world = Watched(Hop(), turned=_even_win_others_break())
    metrics = await evaluate(
        world,
        Renderer(chat(), "window"),
        ScriptedPolicy(lambda _context, _seed: ids("answer Ada")),
        episodes=4,
        max_new_tokens=8,
    )
    assert metrics["eval/success"] == metrics["eval/success_greedy"] == 1.0
    assert metrics["eval/failed"] == 4
    assert metrics["eval/turns"] == 1.0
    world.book.check()


def _even_win_others_break():
    def turned(episode, _text, observation):
        if episode.number % 2:
            raise OSError("no connection")
        return replace(observation, reward=1.0, end=End.FINISHED, score=1.0)

    return turned


async def test_an_episode_that_cannot_be_closed_is_reported_and_nothing_else(caplog):
    world = Watched(Hop())

    class StuckError(OSError):
        pass

    async def close(_self):
        raise StuckError

    world_open = world.open

    async def opened(task, seed):
        episode = await world_open(task, seed)
        episode.close = close.__get__(episode)
        return episode

    world.open = opened
    _, counts = await planted(world)
    assert counts["close_failed/StuckError"] == 6
    assert "could not be closed" in caplog.text


async def test_an_evaluation_can_play_other_held_out_tasks():
    played = {0: [], 5: []}
    for first, tasks in played.items():

        class Noted(Hop):
            async def open(self, task, seed, tasks=tasks):
                tasks.append(task)
                return await super().open(task, seed)

        await evaluate(
            Noted(),
            Renderer(chat(), "window"),
            ScriptedPolicy(lambda _context, _seed: ids("answer Ada")),
            episodes=2,
            max_new_tokens=8,
            first=first,
        )
    assert set(played[0]) == {"test-0", "test-1"}
    assert set(played[5]) == {"test-5", "test-6"}

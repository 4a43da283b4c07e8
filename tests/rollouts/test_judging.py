"""What turns earn where reward functions say, and that a reward that breaks is none."""

import asyncio
import math
from dataclasses import replace

import pytest

from retrograde.credit.group_relative import GroupRelative
from retrograde.data.message import Message
from retrograde.data.rows import rows_of
from retrograde.data.tree import ROOT_PARENT, End, Group
from retrograde.environments.hop import Hop
from retrograde.environments.market import Market
from retrograde.policies.scripted import ScriptedPolicy
from retrograde.rewards.registry import weighted
from retrograde.rewards.weighted import EachTurn, Rewards, Weighted
from retrograde.rollouts.plans import NEW_TREE, Fork, ReverseTree

from .faulty import block
from .test_contexts import speaker
from .worlds import Watched, chat, ended, grower, grown, ids

PLANT = [[Fork(NEW_TREE, ROOT_PARENT)] * 6]


def by(**functions):
    return Rewards(tuple(Weighted(name, function) for name, function in functions.items()))


async def judged(rewards, world=None, plan=None, policy=None, **limits):
    world = world or Watched(Hop())
    growing = grower(world, policy or ScriptedPolicy(speaker), rewards=rewards, **limits)
    if plan is None:
        (group,) = await growing.grow([Group("train-0")], PLANT, 0, 1)
    else:
        (group,) = await grown(growing, plan, ["train-0"])
    await growing.forget()
    world.book.check()
    return group, growing


def averages(growing):
    found = {}
    for figure in growing.figures:
        found.setdefault(figure.name, []).append(figure.value)
    return found


async def test_an_episode_earns_with_its_last_turn_what_its_rewards_weigh_together():
    rewards = Rewards(
        (
            Weighted("turns", lambda episode: len(episode.turns), 0.5),
            Weighted("short", lambda episode: -episode.tokens, 0.01),
        )
    )
    group, growing = await judged(rewards)
    turns, tokens = [], []
    for tree in group.trees:
        *before, last = [tree.turns[i] for i in tree.trunk]
        assert not any(turn.reward for turn in before)
        turns.append(len(tree.trunk))
        tokens.append(sum(len(turn.action) for turn in tree.turns))
        assert last.reward == pytest.approx(0.5 * turns[-1] - 0.01 * tokens[-1])
    assert sorted(averages(growing)["reward/turns"]) == sorted(turns)
    assert sorted(averages(growing)["reward/short"]) == sorted(-number for number in tokens)


async def test_a_reward_for_turns_is_given_with_each():
    seen = []

    @EachTurn
    def tokens(episode):
        seen.append(len(episode.turns))
        return episode.last.tokens

    group, growing = await judged(by(tokens=tokens))
    for tree in group.trees:
        assert [turn.reward for turn in tree.turns] == [len(turn.action) for turn in tree.turns]
    assert len(seen) == sum(len(tree.turns) for tree in group.trees)
    sums = [sum(len(turn.action) for turn in tree.turns) for tree in group.trees]
    assert sorted(averages(growing)["reward/tokens"]) == sorted(sums)


async def test_siblings_share_what_their_shared_turns_earned():
    rewards = by(tokens=EachTurn(lambda episode: episode.last.tokens), one=lambda _: 100.0)
    group, growing = await judged(rewards, plan=ReverseTree(1, 3))
    (tree,) = group.trees
    whole = [sum(len(tree.turns[i].action) for i in tree.path(leaf)) for leaf in tree.leaves]
    assert [tree.returns[leaf] for leaf in tree.leaves] == [100.0 + number for number in whole]
    assert sorted(averages(growing)["reward/tokens"]) == sorted(whole)


async def test_a_rollout_that_was_only_stopped_has_no_outcome_yet():
    def one(_episode):
        return 1.0

    world = Watched(Hop())
    growing = grower(world, ScriptedPolicy(lambda *_: ids("search Ada boss")), rewards=by(one=one))
    plant = [[Fork(NEW_TREE, ROOT_PARENT, turns=2)]]
    groups = await growing.grow([Group("train-0")], plant, 0, 1)
    assert ended(groups) == {End.STOPPED: 1}
    assert groups[0].trees[0].returns[1] == 0.0
    (group,) = await growing.grow(groups, [[Fork(0, 1)]], 1, 1)
    assert group.trees[0].returns[-1] == 1.0
    assert averages(growing) == {"reward/one": [1.0]}


async def test_the_environments_own_reward_is_replaced_or_listed_with_the_others():
    def play(reward_list):
        return judged(reward_list, Watched(Market()))

    (bare, _), (replaced, _), (both, growing), (half, _) = [
        await play(each)
        for each in (
            None,
            by(one=lambda _: 1.0),
            Rewards((weighted("environment"), Weighted("one", lambda _: 1.0))),
            Rewards((weighted("environment=0.5"),)),
        )
    ]
    for plain, other, sum_, halved in zip(
        bare.trees, replaced.trees, both.trees, half.trees, strict=True
    ):
        own = [turn.reward for turn in plain.turns]
        ones = [0.0] * (len(own) - 1) + [1.0]
        assert any(own)
        assert [turn.reward for turn in other.turns] == ones
        assert [turn.reward for turn in sum_.turns] == [
            a + b for a, b in zip(own, ones, strict=True)
        ]
        assert [turn.reward for turn in halved.turns] == [0.5 * each for each in own]
    returns = [tree.returns[-1] for tree in bare.trees]
    assert averages(growing)["reward/environment"] == pytest.approx(returns)


async def test_what_a_reward_is_told():
    told = []

    async def listens(episode):
        told.append(episode)
        await asyncio.sleep(0)
        return 0.0

    class Columned(Hop):
        def columns(self, task):
            return {"task": task.upper()}

    world = Watched(Columned(context="full"))
    group, _ = await judged(by(listens=listens), world)
    assert len(told) == len(group.trees)
    by_answers = {tuple(turn.answer for turn in episode.turns): episode for episode in told}
    for tree in group.trees:
        spoken = tuple(chat().decode(turn.action) for turn in tree.turns)
        episode = by_answers[spoken]
        assert (episode.task, episode.max_new_tokens) == ("train-0", 12)
        assert episode.gold == Hop().gold("train-0")
        assert episode.columns == {"task": "TRAIN-0"}
        assert episode.score == tree.turns[-1].score
        assert episode.end is tree.turns[-1].end
        opening = (await Hop().open("train-0", 0)).opening()
        assert episode.turns[0].shown == opening
        for before, after in zip(episode.turns, episode.turns[1:], strict=False):
            assert after.shown == before.observation.messages
        for said, turn in zip(episode.turns, tree.turns, strict=True):
            assert said.tokens == len(turn.action)
            assert said.stopped


async def test_an_answer_that_ran_out_of_tokens_is_told_apart():
    stopped = []

    def note(episode):
        stopped.append(episode.turns[0].stopped)
        return 0.0

    policy = ScriptedPolicy(lambda *_: ids("answer Ada Ada Ada Ada"))
    growing = grower(Hop(), policy, rewards=by(note=note), max_new_tokens=3)
    await growing.grow([Group("train-0")], [[Fork(NEW_TREE, ROOT_PARENT)]], 0, 1)
    assert stopped == [False]


def letters(episode):
    return sum(len(turn.answer) for turn in episode.turns)


def every_third(episode):
    return letters(episode) % 3 == 0


async def hangs():
    await asyncio.sleep(60)


def raises():
    raise LookupError("no idea")


@pytest.mark.parametrize(
    ("breaks", "error"),
    [
        (raises, "LookupError"),
        (lambda: float("nan"), "ValueError"),
        (lambda: -math.inf, "ValueError"),
        (lambda: None, "TypeError"),
        (hangs, "TimeoutError"),
        (block, "TimeoutError"),
    ],
)
async def test_a_reward_that_breaks_fails_its_rollout_and_leaves_the_others(breaks, error):
    """A group with a reward that is none: the others are judged among themselves."""

    def odd(episode):
        return breaks() if every_third(episode) else float(letters(episode))

    group, growing = await judged(by(odd=odd, even=lambda _: 1.0), reward_seconds=0.1)
    failed = [tree.turns[-1].end is End.FAILED for tree in group.trees]
    assert 0 < sum(failed) < len(failed)
    counts = growing.counts
    assert sum(failed) == counts["failed_at/reward/odd"] == counts[f"failed/{error}"]
    (rows,) = [rows_of([group], [GroupRelative()(group, 0)])]
    trained = {row.rollout[2] for row in rows}
    assert trained == {t for t, bad in enumerate(failed) if not bad}
    assert all(math.isfinite(row.advantage) for row in rows)
    assert any(row.advantage for row in rows)
    assert len(averages(growing)["reward/odd"]) == failed.count(False)
    assert all(
        tree.turns[-1].reward == 0.0 for tree, bad in zip(group.trees, failed, strict=True) if bad
    )


async def test_one_reward_that_counts_in_a_group_gives_no_signal():
    calls = iter([1.0] + [math.nan] * 5)
    group, _ = await judged(by(odd=lambda _: next(calls)))
    rows = rows_of([group], [GroupRelative()(group, 0)])
    assert {row.rollout[2] for row in rows} == {
        t for t, tree in enumerate(group.trees) if tree.turns[-1].end is not End.FAILED
    }
    assert rows
    assert all(row.advantage == 0.0 for row in rows)


async def test_a_gold_answer_that_cannot_be_had_fails_the_rollout():
    class Forgetful(Hop):
        def gold(self, task):
            raise OSError("no file")

    growing = grower(Watched(Forgetful()), ScriptedPolicy(speaker), rewards=by(one=lambda _: 1.0))
    with pytest.raises(RuntimeError, match="6 x OSError at gold"):
        await growing.grow([Group("train-0")], PLANT, 0, 1)


async def test_a_rollout_that_was_cut_off_is_judged_all_the_same():
    """Where there is no more room for a context, the episode has not ended, and yet is over."""

    def long(_episode, _text, observation):
        if observation.end is not None:
            return observation
        return replace(observation, messages=(Message("user", "Ada " * 40),))

    ends = []

    def note(episode):
        ends.append(episode.end)
        return 1.0

    world = Watched(Hop(context="full"), turned=long)
    group, growing = await judged(by(note=note), world, context_tokens=80)
    assert ended([group])[End.TRUNCATED] == growing.counts["cut/contexts"] > 0
    assert None in ends
    assert all(tree.returns[-1] == 1.0 for tree in group.trees)

"""What environments count and measure themselves, and the journal that keeps it."""

import asyncio
import json
from dataclasses import replace

import pytest
from tests.trainer.runs import graded_hop, ran, taught_hop

from retrograde.algorithms.grpo import grpo
from retrograde.data.stored import Scribe
from retrograde.data.tree import ROOT_PARENT, End, Group
from retrograde.environments.hop import Hop
from retrograde.environments.protocol import Observation
from retrograde.policies.scripted import ScriptedPolicy
from retrograde.rendering.history import Renderer
from retrograde.rollouts.plans import NEW_TREE, Fork
from retrograde.trainer.evaluation import evaluate
from retrograde.trainer.journal import DiskJournal
from retrograde.trainer.run import State

from .test_contexts import speaker
from .worlds import Watched, chat, grower, ids

PLANT = [[Fork(NEW_TREE, ROOT_PARENT)] * 3]


def telling(episode, _text, observation):
    """The number of the episode with each turn, an event with each but the first."""
    events = ("call/malformed",) * (len(episode.said) - 1)
    return replace(observation, events=events, measures=(("number", float(episode.number)),))


async def test_events_are_counted_and_measures_are_kept_with_their_turns():
    growing = grower(
        Watched(Hop(), turned=telling), ScriptedPolicy(lambda *_: ids("search Ada boss"))
    )
    await growing.grow([Group("train-0")], PLANT, 0, 1)
    # 3 rollouts of 4 turns each: 0 + 1 + 2 + 3 events in each.
    assert growing.counts["events/call/malformed"] == 3 * 6
    assert len(growing.figures) == 3 * 4
    for figure in growing.figures:
        assert figure.name == "measures/number"
        assert figure.value == figure.place.tree + 1
        assert figure.place.turn in range(4)
        assert figure.place.group == 0


def test_a_run_counts_and_averages_them_by_name():
    world = graded_hop()
    world.turned = telling
    model = taught_hop()
    run = asyncio.run(
        ran(grpo(rollouts=2, learning_rate=1e-3), world=world, model=model, prompts=1)
    )
    (group,) = run.groups()
    turns = [len(tree.turns) for tree in group.trees]
    assert run.notes.counts["events/call/malformed"] == sum(n * (n - 1) / 2 for n in turns)
    numbers = run.notes.seen("measures/number")
    assert sorted(numbers) == sorted([1.0] * turns[0] + [2.0] * turns[1])


def test_a_line_of_the_journal_holds_their_mean_and_their_number(tmp_path):
    journal = DiskJournal(tmp_path, State(), lambda *_: None, Scribe(str), bool, keep_rollouts=0)
    for value in (0.0, 0.5, 1.0, 0.5):
        journal.add({"measures/f1": value})
    journal.count("events/call/malformed", 2)
    journal.count("events/call/malformed", 3)
    journal.close_step(State(step=1), [], None)
    (line,) = map(json.loads, (tmp_path / "metrics.jsonl").read_text().splitlines())
    assert line["measures/f1"] == 0.5
    assert line["events/call/malformed"] == 5


async def test_an_evaluation_averages_measures_over_rollouts_that_did_not_fail():
    def turned(episode, _text, observation):
        if episode.number % 4 == 0:
            raise OSError("no connection")
        measures = (("f1", episode.number / 4), ("success", -1.0))
        return replace(observation, reward=1.0, end=End.FINISHED, score=1.0, measures=measures)

    metrics = await evaluate(
        Watched(Hop(), turned=turned),
        Renderer(chat(), "window"),
        ScriptedPolicy(speaker),
        episodes=4,
        max_new_tokens=8,
    )
    # Episodes 1, 2, 3 of 4, and greedily 5, 6, 7 of 8.
    assert metrics["eval/f1"] == pytest.approx((1 + 2 + 3) / 3 / 4)
    assert metrics["eval/f1_greedy"] == pytest.approx((5 + 6 + 7) / 3 / 4)
    assert metrics["eval/success"] == 1.0  # the library's own names are its own
    assert metrics["eval/failed"] == 2


async def test_a_number_of_another_kind_becomes_a_float():
    class Odd(float):
        pass

    def turned(_episode, _text, observation):
        return Observation((), reward=True, end=End.FINISHED, score=1, measures=(("f1", Odd(1)),))

    growing = grower(Watched(Hop(), turned=turned), ScriptedPolicy(speaker))
    (group,) = await growing.grow([Group("train-0")], PLANT, 0, 1)
    for tree in group.trees:
        assert type(tree.turns[0].reward) is type(tree.turns[0].score) is float
    assert {type(figure.value) for figure in growing.figures} == {float}

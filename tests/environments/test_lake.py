"""The lake environment: a map worked by hand, then many drawn ones."""

import random

import pytest

from retrograde.data.offer import Offer
from retrograde.data.tree import End
from retrograde.environments.lake import (
    DIRECTIONS,
    MISUNDERSTOOD,
    RULES,
    SLIPPERY_RULES,
    Chart,
    Lake,
    LakeEpisode,
)

#                 column 0123
BY_HAND = Chart(rows=("SFFF", "HFHF", "FFFF", "FFHG"))


def on(monkeypatch, environment=None, seed=0) -> LakeEpisode:
    monkeypatch.setattr(Chart, "of", lambda task: BY_HAND)
    return LakeEpisode("train-0", environment or Lake(), seed)


async def walk(episode, *directions):
    return [await episode.act(f"go {direction}") for direction in directions]


async def test_a_walk_worked_by_hand_reaches_the_goal(monkeypatch):
    episode = on(monkeypatch)
    rules, first = episode.opening()
    assert (rules.content, rules.lasting) == (RULES, True)
    assert not first.lasting
    assert first.content == (
        "North: wall\nEast: ice\nSouth: hole\nWest: wall\nGoal: south east\nLast move: none"
    )
    said = await walk(episode, "east", "south", "south", "east", "east", "south")
    assert said[2].messages[0].content == (
        "North: ice\nEast: ice\nSouth: ice\nWest: ice\nGoal: south east\nLast move: south"
    )
    assert said[4].messages[0].content == (
        "North: ice\nEast: wall\nSouth: goal\nWest: ice\nGoal: south\nLast move: east"
    )
    assert [(o.reward, o.end) for o in said] == [(0.0, None)] * 5 + [(1.0, End.FINISHED)]
    with pytest.raises(RuntimeError, match=r"train-0.*over"):
        await episode.act("go north")


async def test_a_hole_ends_the_walk(monkeypatch):
    (said,) = await walk(on(monkeypatch), "south")
    assert (said.reward, said.end) == (0.0, End.FINISHED)


async def test_walls_stop_and_time_runs_out(monkeypatch):
    episode = on(monkeypatch)
    said = await walk(episode, *["north"] * 8)
    assert episode.cell == (0, 0)
    assert [o.end for o in said] == [None] * 7 + [End.TRUNCATED]
    assert said[-1].reward == 0.0


async def test_the_score_says_how_near_the_goal_is_worked_by_hand(monkeypatch):
    # Six steps lead from the start to the goal, around the holes; each is worth a sixteenth.
    episode = on(monkeypatch)
    assert episode.score == 1 - 6 / 16
    said = await walk(episode, "east", "east", "east", "west", "west", "south", "south", "east")
    steps = (5, 4, 3, 4, 5, 4, 3, 2)
    assert [o.score for o in said] == [1 - s / 16 for s in steps]
    assert said[-1].end is End.TRUNCATED
    said = await walk(on(monkeypatch), "east", "south", "south", "east", "east", "south")
    assert [o.score for o in said] == [1 - s / 16 for s in (5, 4, 3, 2, 1, 0)]
    (said,) = await walk(on(monkeypatch), "south")
    assert said.score == 0.0
    assert (await on(monkeypatch).act("nonsense")).score == 1 - 6 / 16


@pytest.mark.parametrize(
    "text", ["", "go", "go up", "south", "go south east", "<think> go south", "I go south"]
)
async def test_text_that_means_nothing_moves_nobody_and_uses_a_turn(monkeypatch, text):
    episode = on(monkeypatch)
    before = episode.opening()[1].content
    said = await episode.act(text)
    assert said.messages[0].content == f"{MISUNDERSTOOD}\n{before}"
    assert (episode.cell, episode.used, said.end) == ((0, 0), 1, None)


@pytest.mark.parametrize(
    "text",
    ["go east", "**Go: EAST.**", "<think> go south </think>\n go east", "Hm.\ngo east\ngo west"],
)
async def test_case_punctuation_and_other_lines_are_forgiven(monkeypatch, text):
    episode = on(monkeypatch)
    await episode.act(text)
    assert episode.cell == (0, 1)


def test_maps_are_fair_and_the_splits_share_none():
    charts = {split: [Chart.of(f"{split}-{i}") for i in range(1000)] for split in ("train", "test")}
    for split, drawn in charts.items():
        assert all(chart.split == split for chart in drawn)
        assert {chart.steps_to_goal(chart.find("S")) for chart in drawn} == {2, 3, 4, 5, 6}
    assert not set(charts["train"]) & set(charts["test"])
    assert Chart.of("train-3") == Chart.of("train-3") != Chart.of("train-4")


def test_steps_go_around_holes():
    assert BY_HAND.steps_to_goal((0, 0)) == 6
    assert Chart(("SHFF", "FFFF", "FFFF", "FFFG")).steps_to_goal((0, 0)) == 6
    assert Chart(("SHGF", "FFFF", "FFFF", "FFFF")).steps_to_goal((0, 0)) == 4
    assert Chart(("SHGF", "HFFF", "FFFF", "FFFF")).steps_to_goal((0, 0)) is None


async def cells(episode, script):
    visited = []
    for direction in script:
        said = await episode.act(f"go {direction}")
        visited.append(episode.cell)
        if said.end:
            break
    return visited


async def test_chance_comes_from_the_seed_alone(monkeypatch):
    slippery, script = Lake(slip=True), ["north", "west"] * 4
    assert on(monkeypatch, slippery).opening()[0].content == SLIPPERY_RULES
    walks = {seed: await cells(on(monkeypatch, slippery, seed), script) for seed in range(20)}
    again = {seed: await cells(on(monkeypatch, slippery, seed), script) for seed in range(20)}
    assert walks == again
    assert len({tuple(walk) for walk in walks.values()}) > 1
    firm = [await cells(on(monkeypatch, seed=seed), script) for seed in range(3)]
    assert firm[0] == firm[1] == firm[2]


async def test_a_fork_has_the_same_past_and_another_future(monkeypatch):
    script = ["north", "west"] * 3
    untouched = on(monkeypatch, Lake(slip=True), 5)
    episode = on(monkeypatch, Lake(slip=True), 5)
    for each in (untouched, episode):
        await each.act("go north")
    assert episode.state_key() == untouched.state_key()
    twins = [episode.fork(seed) for seed in range(20)]
    assert {twin.state_key() for twin in twins} == {episode.state_key()}
    assert {twin._surroundings() for twin in twins} == {episode._surroundings()}
    futures = [await cells(twin, script) for twin in twins]
    assert len({tuple(future) for future in futures}) > 1
    assert futures == [await cells(episode.fork(seed), script) for seed in range(20)]
    assert await cells(episode, script) == await cells(untouched, script)


async def test_equal_states_have_equal_futures():
    chance = random.Random(0)
    lake, seen = Lake(), {}
    for i in range(300):
        episode, end = await lake.open(f"train-{i % 3}", i), None
        for _ in range(chance.randrange(4)):
            said = await episode.act(chance.choice(["nonsense", *(f"go {d}" for d in DIRECTIONS)]))
            end = end or said.end
            if end:
                break
        if end:
            continue
        key, script = episode.state_key(), random.Random(str(episode.state_key()))
        future = []
        while end is None:
            said = await episode.act(f"go {script.choice(list(DIRECTIONS))}")
            end = said.end
            future.append(said)
        assert seen.setdefault(key, future) == future
    assert len(seen) > 10


async def test_the_teacher_ignores_holes_and_is_right_now_and_then():
    lake, successes, ends = Lake(), 0.0, set()
    for i in range(200):
        episode, end, turn = await lake.open(lake.task("train", i), i), None, 0
        while end is None:
            said = await episode.act(episode.demonstrate(100 * i + turn))
            end, turn = said.end, turn + 1
            successes += said.reward
        ends.add(end)
        await episode.close()
    assert 20 < successes < 180
    assert ends == {End.FINISHED, End.TRUNCATED}


def test_limits():
    assert [Lake(turns=t).turn_limit for t in (8, 16)] == [8, 16]
    assert Lake().offers == {Offer.SCORES}
    with pytest.raises(LookupError, match="lake has no answer that ends train-3 rightly"):
        Lake().gold("train-3")
    for turns in (7, 17):
        with pytest.raises(ValueError, match=f"turns: got {turns}, needed 8 to 16"):
            Lake(turns=turns)
    with pytest.raises(ValueError, match="index: got -1"):
        Lake().task("test", -1)


@pytest.mark.parametrize("task", ["", "train", "train-01", "train--1", "dev-1"])
async def test_an_unknown_task_is_refused(task):
    with pytest.raises(ValueError, match="lake has no task"):
        await Lake().open(task, 0)

"""Gymnasium environments: real ones played to the end, forks, words, and what is refused."""

import random

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from retrograde.data.offer import Offer
from retrograde.data.tree import End
from retrograde.environments.gym import MISUNDERSTOOD, Gym, gym
from retrograde.environments.protocol import Forking
from retrograde.environments.registry import environment_named
from retrograde.environments.spaces import action_words, check_sight, sight
from retrograde.environments.twin import reseed

STILL = '{"is_slippery": false}'


class Walk(gymnasium.Env):
    """A walk on a line whose steps are drawn by whatever generator it is given."""

    observation_space = spaces.Discrete(100)
    action_space = spaces.Discrete(2)

    def __init__(self, holder=None, untouchable=None):
        self.holder, self.untouchable = holder, untouchable

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 50
        return self.place, {}

    def step(self, action):
        drawn = self.holder["dice"].randrange(5) if self.holder else self.np_random.integers(5)
        self.place = int(np.clip(self.place + (2 * action - 1) * drawn, 0, 99))
        return self.place, 0.0, False, False, {}


async def played(environment, task, seed, texts):
    episode = await environment.open(task, seed)
    said = []
    for text in texts:
        said.append(await episode.act(text))
        if said[-1].end is not None:
            break
    await episode.close()
    return said


async def test_a_still_lake_is_crossed():
    environment = gym("FrozenLake-v1", options=STILL)
    way = ["down", "1", "Right.", "down", "2", "RIGHT"]  # the usual map: SFFF FHFH FFFH HFFG
    said = await played(environment, "train-0", 0, way)
    assert [o.reward for o in said] == [0.0] * 5 + [1.0]
    assert said[-1].end is End.FINISHED
    assert said[0].messages[0].content == "You are in row 1, column 0."
    assert sum(o.reward for o in said) >= environment.success_return
    said = await played(environment, "train-0", 0, ["right", "down"])  # into a hole
    assert (said[-1].reward, said[-1].end) == (0.0, End.FINISHED)


async def test_a_taxi_earns_what_gymnasium_says():
    environment = gym("Taxi-v4")
    said = await played(environment, "train-1", 0, ["dropoff", "4"])
    assert said[0].reward == -10.0
    assert environment.turn_limit == 200
    assert "Passenger: " in said[0].messages[0].content


async def test_blackjack_is_lost_above_21():
    environment = gym("Blackjack-v1")
    said = await played(environment, "train-0", 3, ["hit"] * 12)
    assert (said[-1].reward, said[-1].end) == (-1.0, End.FINISHED)
    episode = await environment.open("train-0", 0)
    rules, first = episode.opening()
    assert rules.lasting
    assert rules.content.endswith("with one of: stick (0), hit (1).")
    assert first.content.startswith("You have ")


async def test_a_pole_falls_and_numbers_are_shown():
    environment = gym("CartPole-v1", turns=20, success_return=20)
    said = await played(environment, "train-0", 0, ["left"] * 20)
    assert said[-1].end is End.FINISHED
    assert 5 < len(said) < 15
    assert all(o.reward == 1.0 for o in said)
    assert len(said[0].messages[0].content.splitlines()) == 4
    said = await played(environment, "train-0", 0, ["left", "right"] * 10)
    assert (len(said), said[-1].end) == (20, End.TRUNCATED)


@pytest.mark.parametrize("text", ["", "fly", "7", "-1", "left right", "<think> left", "leftright"])
async def test_text_that_means_nothing_is_no_step(text):
    environment = gym("FrozenLake-v1", turns=2)
    episode = await environment.open("train-0", 0)
    said = await episode.act(text)
    assert said.messages[0].content.startswith(MISUNDERSTOOD)
    assert said.messages[0].content.endswith("You are in row 0, column 0.")
    assert (said.events, said.reward, episode.steps) == (("action/malformed",), 0.0, 0)
    said = await episode.act(text)
    assert (said.end, said.messages) == (End.TRUNCATED, ())
    with pytest.raises(RuntimeError, match=r"train-0.*over"):
        await episode.act("left")


@pytest.mark.parametrize(
    "name", ["FrozenLake-v1", "Taxi-v4", "Blackjack-v1", "CartPole-v1", "CliffWalking-v1"]
)
async def test_tasks_seeds_and_forks(name):
    environment = gym(name)
    assert environment.forking is Forking.FORK
    assert environment.offers == {Offer.TURN_REWARDS}
    chance = random.Random(0)
    words = (await environment.open("train-0", 0)).words
    texts = [words.example(chance) for _ in range(30)]
    assert await played(environment, "test-2", 5, texts) == await played(
        environment, "test-2", 5, texts
    )
    openings = {(await environment.open("test-2", seed)).opening() for seed in range(5)}
    assert len(openings) == 1
    episode = await environment.open("train-1", 0)
    for text in texts[:2]:
        if (await episode.act(text)).end is not None:
            episode = await environment.open("train-1", 1)
            break
    before = episode.state_key()
    assert before is not None
    twins = [episode.fork(seed) for seed in (1, 1, 2)]
    assert {twin.state_key() for twin in twins} == {before}
    futures = []
    for twin in twins:
        futures.append([])
        for text in texts:
            futures[-1].append(await twin.act(text))
            if futures[-1][-1].end is not None:
                break
    assert futures[0] == futures[1]
    assert episode.state_key() == before


@pytest.mark.parametrize(("name", "differs"), [("FrozenLake-v1", True), ("CartPole-v1", False)])
async def test_where_there_is_chance_seeds_decide_it(name, differs):
    environment = gym(name)
    futures = {str(await played(environment, "train-0", seed, ["left"] * 8)) for seed in range(12)}
    assert (len(futures) > 1) == differs
    episode = await environment.open("train-0", 0)
    forked = set()
    for seed in range(12):
        twin = episode.fork(seed)
        forked.add(str([await twin.act("down"), twin.state_key()]))
    assert (len(forked) > 1) == differs


async def test_the_ice_slips_as_often_as_gymnasium_says():
    # From the start, right goes right, up (against the wall) or down, a third each.
    environment = gym("FrozenLake-v1")
    episode, places = await environment.open("train-0", 0), []
    for seed in range(300):
        twin = episode.fork(seed)
        await twin.act("right")
        places.append(twin.state_key()[-1])
    for place in (0, 1, 4):
        assert abs(places.count(place) - 100) < 5 * (300 * 2 / 9) ** 0.5


async def test_every_generator_is_seeded_anew_wherever_it_is_held():
    environment = Gym(make=lambda: Walk(holder={"dice": random.Random(0)}))
    assert environment.forking is Forking.FORK
    episode = await environment.open("train-0", 0)
    futures = set()
    for seed in (1, 1, 2, 3):
        twin = episode.fork(seed)
        futures.add(tuple([(await twin.act("1")).messages[0].content for _ in range(6)]))
    assert len(futures) == 3
    one, other = (Walk(holder={"dice": random.Random(n)}) for n in (1, 2))
    for world in (one, other):
        world.reset(seed=3)
        reseed(world, 9)
    assert one.holder["dice"].random() == other.holder["dice"].random()
    assert one.np_random.random() == other.np_random.random()


def a_lock():
    return (None for _ in ())  # a generator cannot be copied


async def test_what_cannot_be_copied_is_replayed_or_not_forked_at_all():
    chancy = Gym(make=lambda: Walk(untouchable=a_lock()))
    assert chancy.forking is Forking.NONE
    with pytest.raises(TypeError, match="cannot be forked"):
        (await chancy.open("train-0", 0)).fork(0)

    class Steady(Walk):
        def step(self, action):
            self.place = (self.place + action) % 100
            return self.place, 1.0, False, False, {}

    steady = Gym(make=lambda: Steady(untouchable=a_lock()))
    assert steady.forking is Forking.REPLAY
    assert Gym(make=Steady).forking is Forking.FORK
    assert Gym(make=Steady, forking="none").forking is Forking.NONE


def test_tasks_of_the_two_splits_are_reset_with_other_seeds():
    environment = gym("Blackjack-v1")
    seeds = {s: {environment.reset_seed(f"{s}-{i}") for i in range(300)} for s in ("train", "test")}
    assert not seeds["train"] & seeds["test"]
    assert len(seeds["train"]) == 300


def test_actions_in_words():
    chosen = action_words(spaces.Discrete(3, start=5), ("a", "b", "c"))
    assert [chosen.read(t) for t in ("A", "b.", "7", "4", "hm\nc", "a b")] == [
        5,
        6,
        7,
        None,
        7,
        None,
    ]
    plain = action_words(spaces.Discrete(2), ())
    assert plain.rule == "Each turn, say exactly one line with one of: 0, 1."
    several = action_words(spaces.MultiDiscrete([3, 2]), ())
    assert several.rule.endswith("2 numbers: 0 to 2, 0 to 1.")
    assert several.read("2, 1").tolist() == [2, 1]
    assert [several.read(t) for t in ("2", "3 0", "1 1 1", "a b")] == [None] * 4
    bits = action_words(spaces.MultiBinary(3), ())
    assert bits.read("[1 0 1]").tolist() == [1, 0, 1]
    words = action_words(spaces.Text(5, charset="abc"), ())
    assert [words.read(t) for t in ("abc", "abcabc", "abx")] == ["abc", None, None]
    for one in (chosen, plain, several, bits, words):
        assert one.read(one.example(random.Random(0))) is not None


def test_observations_in_words():
    assert sight(spaces.Discrete(5), np.int64(3)) == "3"
    assert sight(spaces.MultiDiscrete([[4, 4], [4, 4]]), np.array([[1, 2], [3, 0]])) == "1 2\n3 0"
    assert sight(spaces.Box(-1, 1, (2,)), np.array([0.123, -1.0])) == "0.12 -1.00"
    assert sight(spaces.Box(0, 9, (2,), dtype=np.int32), np.array([4, 5])) == "4 5"
    both = spaces.Dict({"hand": spaces.Tuple((spaces.Discrete(3), spaces.Text(9)))})
    assert sight(both, {"hand": (2, "hello")}) == "hand: 0: 2\n1: hello"
    for space in (spaces.Box(0, 255, (84, 84)), spaces.Sequence(spaces.Discrete(2))):
        with pytest.raises(ValueError, match="has no words: give a renderer"):
            check_sight(spaces.Tuple((spaces.Discrete(2), space)))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"env_id": "Pendulum-v1"}, "is continuous"),
        ({"env_id": "NoSuchLake-v1"}, "NoSuchLake"),
        ({"env_id": ""}, "the id of an environment is needed"),
        ({"env_id": "FrozenLake-v1", "options": "{"}, "gym:FrozenLake-v1 with options {"),
        ({"env_id": "FrozenLake-v1", "options": '{"ice": 1}'}, "unexpected keyword"),
        ({"env_id": "FrozenLake-v1", "actions": "left,right"}, "actions: 4 names are needed"),
        ({"env_id": "FrozenLake-v1", "turns": 0}, "turns: got 0"),
        ({"env_id": "FrozenLake-v1", "renderer": "none.py:shown"}, "renderer .*no file none.py"),
    ],
)
def test_what_cannot_be_is_refused(options, problem):
    with pytest.raises(ValueError, match=problem):
        gym(**options)


async def test_names_and_a_renderer_of_ones_own(tmp_path):
    (tmp_path / "mine.py").write_text(
        "def shown(seen, world):\n    return f'{seen} of {world.nrow}'\n"
    )
    make = environment_named("gym:FrozenLake-v1")
    environment = make(actions="w, s, e, n", renderer=f"{tmp_path}/mine.py:shown", options=STILL)
    episode = await environment.open("train-0", 0)
    assert episode.opening()[1].content == "0 of 4"
    assert (await episode.act("s")).messages[0].content == "4 of 4"
    own = Gym("mine", make=Walk, renderer=lambda seen, world: f"at {seen}")
    assert (await own.open("train-0", 0)).opening()[1].content == "at 50"
    assert (own.env_id, own.turns, own.success_return) == ("mine", 100, 1.0)


def test_the_words_of_an_environment_are_known():
    vocabulary = gym("FrozenLake-v1").vocabulary
    assert {"left", "down", "right", "up", "row", "column", "You"} <= set(vocabulary.words)
    assert any("of: left (0)" in phrase for phrase in vocabulary.phrases)
    assert vocabulary == gym("FrozenLake-v1").vocabulary
    assert "035" in gym("CartPole-v1", turns=5).vocabulary.words

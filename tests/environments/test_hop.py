"""The hop environment: worked by hand, then by chance."""

import random
from typing import ClassVar

import pytest

from retrograde.data.offer import Offer
from retrograde.data.tree import End
from retrograde.environments.hop import (
    ENTITIES,
    FOUND,
    LEFT,
    MISUNDERSTOOD,
    RELATIONS,
    Hop,
    HopEpisode,
    Question,
    Said,
)
from retrograde.environments.protocol import Forking


class WorkedByHand(Question):
    """Who is Ada's friend's boss's teacher? Ada's friend is Ben, his boss Carl, his teacher Dora.

    Ada's teacher is Emma; everyone else is Finn.
    """

    __slots__ = ()
    known: ClassVar = {
        ("Ada", "friend"): "Ben",
        ("Ben", "boss"): "Carl",
        ("Carl", "teacher"): "Dora",
        ("Ada", "teacher"): "Emma",
    }

    def found(self, entity, relation):
        return self.known.get((entity, relation), "Finn")


def ada() -> HopEpisode:
    return HopEpisode("train-0", WorkedByHand(0, "Ada", ("friend", "boss", "teacher")))


async def play(episode, *texts):
    said = [await episode.act(text) for text in texts]
    return said, [observation.messages[0].content for observation in said if observation.messages]


RIGHT = ("search Ada friend", "search Ben boss", "search Carl teacher", "answer Dora")


async def test_a_chain_worked_by_hand_earns_the_reward():
    episode = ada()
    rules, question = episode.opening()
    assert (rules.role, rules.lasting, question.role, question.lasting) == (
        "system", True, "user", True,
    )  # fmt: skip
    assert question.content == "Who is Ada's friend's boss's teacher?"
    said, heard = await play(
        episode, *(f"<think> {3 - i} </think> {t}" for i, t in enumerate(RIGHT))
    )
    assert heard == [
        "Found: Ben\nLeft: boss teacher",
        "Found: Carl\nLeft: teacher",
        "Found: Dora\nLeft: nothing",
    ]
    assert [(o.reward, o.end) for o in said] == [(0, None)] * 3 + [(1.0, End.FINISHED)]


@pytest.mark.parametrize(
    "texts",
    [
        pytest.param((*RIGHT[:3], "answer Carl"), id="wrong answer"),
        pytest.param(("search Ada teacher", *RIGHT[1:]), id="wrong relation"),
        pytest.param((RIGHT[0], "search Ada boss", *RIGHT[2:]), id="wrong entity"),
        pytest.param((RIGHT[1], RIGHT[0], *RIGHT[2:]), id="wrong order"),
        pytest.param(("what?", RIGHT[1], RIGHT[2], RIGHT[3]), id="not understood once"),
        pytest.param((RIGHT[0], RIGHT[0], RIGHT[2], RIGHT[3]), id="the same look-up twice"),
        pytest.param((*RIGHT[:2], "answer Dora"), id="right, but not looked up"),
        pytest.param(("answer Dora",), id="guessed at once"),
    ],
)
async def test_a_single_mistake_earns_nothing(texts):
    said, _ = await play(ada(), *texts)
    assert [o.end for o in said] == [None] * (len(texts) - 1) + [End.FINISHED]
    assert [o.reward for o in said] == [0.0] * len(texts)


@pytest.mark.parametrize("last", ["search Dora friend", "no idea"])
async def test_an_episode_without_an_answer_is_truncated(last):
    episode = ada()
    said, _ = await play(episode, *RIGHT[:3], last)
    assert (said[-1].reward, said[-1].end) == (0.0, End.TRUNCATED)
    with pytest.raises(RuntimeError, match=r"train-0.*over"):
        await episode.act("answer Dora")


@pytest.mark.parametrize(
    ("texts", "scores"),
    [
        # Three look-ups and an answer: each that is right is worth a quarter.
        pytest.param(RIGHT, (0.25, 0.5, 0.75, 1.0), id="right"),
        pytest.param((*RIGHT[:3], "answer Carl"), (0.25, 0.5, 0.75, 0.75), id="wrong answer"),
        pytest.param((*RIGHT[:3], "no idea"), (0.25, 0.5, 0.75, 0.75), id="no answer"),
        pytest.param(
            (RIGHT[0], "search Ada boss", *RIGHT[2:]),
            (0.25, 0.25, 0.25, 0.25),
            id="lost on the way",
        ),
        pytest.param((*RIGHT[:2], "answer Dora"), (0.25, 0.5, 0.5), id="right, but not looked up"),
        pytest.param(("answer Dora",), (0.0,), id="guessed at once"),
    ],
)
async def test_the_score_says_how_much_was_found_worked_by_hand(texts, scores):
    said, _ = await play(ada(), *texts)
    assert tuple(o.score for o in said) == scores


async def test_the_gold_answer_ends_a_task_rightly_once_everyone_is_found():
    hop = Hop(hops=2)
    for i in range(20):
        task = hop.task("train", i)
        episode = await hop.open(task, 0)
        for relation in episode.left:
            await episode.act(f"search {episode.chain[episode.used]} {relation}")
        assert hop.gold(task).startswith("<think> 0 </think> answer ")
        said = await episode.act(hop.gold(task))
        assert (said.reward, said.score, said.end) == (1.0, 1.0, End.FINISHED)
    with pytest.raises(ValueError, match="hop has no task"):
        hop.gold("dev-1")


async def test_a_wrong_look_up_tells_the_truth_and_uses_a_turn():
    _, heard = await play(ada(), "search Ada teacher", "search Vera mentor")
    assert heard == ["Found: Emma\nLeft: boss teacher", "Found: Finn\nLeft: teacher"]


@pytest.mark.parametrize(
    "text",
    [
        "", "   ", "search", "search Ada", "search friend Ada", "search Ada cousin", "answer",
        "search Zoe friend", "answer Zoe", "search Ada friend boss", "I search Ada friend",
        "<think> search Ada friend", "<think> search Ada friend </think>", "answer Ada Ben",
    ],
)  # fmt: skip
async def test_text_that_means_nothing_is_answered_with_the_format(text):
    episode = ada()
    (said,), heard = await play(episode, text)
    assert heard == [f"{MISUNDERSTOOD}\nLeft: boss teacher"]
    assert (said.reward, said.end, episode.right) == (0.0, None, False)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("search Ada friend", Said(search=("Ada", "friend"))),
        ("  **Search: ADA, Friend.**\n", Said(search=("Ada", "friend"))),
        ("search Ada's friend", Said(search=("Ada", "friend"))),
        ("Well.\nsearch Ada boss\nsearch Ben boss", Said(search=("Ada", "boss"))),
        ("<think> answer Ben </think>\nAnswer: Ada!", Said(answer="Ada")),
        ("answer Zoe\nanswer `Ada`", Said(answer="Ada")),
    ],
)
def test_case_punctuation_and_other_lines_are_forgiven(text, said):
    assert Said.of(text) == said


async def test_a_task_is_the_same_every_time():
    hop = Hop()
    first, again, other = [
        await hop.open(task, seed) for task, seed in [("test-5", 0), ("test-5", 9), ("test-6", 0)]
    ]
    assert first.question == again.question
    assert first.question != other.question
    assert first.opening() == again.opening()
    world = [(e, r) for e in ENTITIES for r in RELATIONS]
    assert [first.question.found(*pair) for pair in world] == [
        again.question.found(*pair) for pair in world
    ]


@pytest.mark.parametrize("hops", [1, 3, 5])
def test_the_splits_share_no_question(hops):
    def content(task):
        question = Question.of(task, hops)
        assert question.split == task.partition("-")[0]
        return (question.text, *question.chain)

    train = {content(f"train-{i}") for i in range(1000)}
    test = {content(f"test-{i}") for i in range(1000)}
    assert not train & test
    assert len(train) > (300 if hops == 1 else 990)


def test_nobody_is_found_by_asking_about_themselves_and_relations_come_once():
    for i in range(50):
        question = Question.of(f"train-{i}", 5)
        assert len(set(question.relations)) == 5
        assert all(question.found(e, r) != e for e in ENTITIES for r in RELATIONS)


async def test_a_fork_has_the_same_past_and_leaves_its_original_alone():
    episode = await Hop().open("train-1", 0)
    chain = episode.chain
    await episode.act(f"search {chain[0]} {episode.left[0]}")
    twin = episode.fork(3)
    assert twin.state_key() == episode.state_key()
    wrong = await twin.act("nonsense")
    assert wrong.end is None
    for entity in chain[1:3]:
        await episode.act(f"search {entity} {episode.left[0]}")
    assert (await episode.act(f"answer {chain[3]}")).reward == 1.0
    assert not twin.right
    assert twin.used == 2


async def test_equal_states_have_equal_futures():
    chance = random.Random(0)
    hop, seen = Hop(), {}
    for i in range(300):
        episode = await hop.open(f"train-{i % 4}", 0)
        for turn in range(chance.randrange(3)):
            await episode.act(chance.choice([episode.demonstrate(i * 7 + turn), "nonsense"]))
        key = episode.state_key()
        assert key == episode.fork(0).state_key()
        future = []
        script = random.Random(str(key))
        for _ in range(hop.turn_limit - episode.used):
            right = (
                f"search {episode.chain[episode.used]} {episode.left[0]}" if episode.left else ""
            )
            text = right or f"answer {episode.chain[-1]}"
            if script.random() < 0.2:
                text = f"search {script.choice(ENTITIES)} {script.choice(RELATIONS)}"
            future.append(await episode.act(text))
        assert seen.setdefault(key, future) == future
    assert {future[-1].reward for future in seen.values()} == {0.0, 1.0}


async def test_the_teacher_is_right_now_and_then_and_always_well_formed():
    hop, successes, thoughts = Hop(), 0.0, set()
    for i in range(500):
        episode = await hop.open(hop.task("train", i), 0)
        end, turn = None, 0
        while end is None:
            text = episode.demonstrate(1000 * i + turn)
            assert Said.of(text) != Said()
            assert text == episode.demonstrate(1000 * i + turn)
            thoughts.add((turn, text.split()[1], "answer" in text))
            said = await episode.act(text)
            end, turn = said.end, turn + 1
            successes += said.reward
        assert (turn, end) == (hop.turn_limit, End.FINISHED)
        await episode.close()
    assert 0 < successes < 250
    assert thoughts == {(0, "3", False), (1, "2", False), (2, "1", False), (3, "0", True)}


def test_limits():
    assert [Hop(hops=h).turn_limit for h in (1, 3, 5)] == [2, 4, 6]
    assert Hop().forking is Forking.FORK
    assert Hop().offers == {Offer.SCORES, Offer.GOLD}
    for hops in (0, 6):
        with pytest.raises(ValueError, match=f"hops: got {hops}, needed 1 to 5"):
            Hop(hops=hops)
    with pytest.raises(ValueError, match="index: got -1"):
        Hop().task("train", -1)


@pytest.mark.parametrize(
    "task", ["", "train", "train-", "train-01", "train--1", "dev-1", "train-1 "]
)
async def test_an_unknown_task_is_refused(task):
    with pytest.raises(ValueError, match="hop has no task"):
        await Hop().open(task, 0)


def test_observations_are_short_and_plain():
    assert (FOUND, LEFT) == ("Found:", "Left:")
    assert len(set(ENTITIES)) == 20
    assert all(name.isalpha() for name in (*ENTITIES, *RELATIONS))

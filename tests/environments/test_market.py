"""The market environment: a day worked by hand, then many drawn ones."""

import random
from statistics import fmean

import pytest

from retrograde.data.offer import Offer
from retrograde.data.tree import End
from retrograde.environments.market import (
    CALM,
    CLOSED,
    EARNED,
    GOODS,
    LUCKY,
    MISSED,
    MISUNDERSTOOD,
    RULES,
    STALLS,
    UNLUCKY,
    Client,
    Day,
    Market,
    MarketEpisode,
)
from retrograde.environments.protocol import Forking

BY_HAND = Day(
    (
        Client(("tea", "fish", "salt", "wool"), "fish"),
        Client(("rice", "silk", "bread", "tea"), "tea"),
        Client(("salt", "honey", "cloth", "fish"), "salt"),
    )
)
RIGHT = ("open", "trade fish", "trade tea", "trade salt")


def on(monkeypatch, environment=None, seed=0) -> MarketEpisode:
    monkeypatch.setattr(Day, "of", lambda task, deals: BY_HAND)
    return MarketEpisode("train-0", environment or Market(), seed)


async def play(episode, *texts):
    return [await episode.act(text) for text in texts]


def seed_of(luck):
    """A seed whose day brings that luck."""
    return next(s for s in range(100) if random.Random(s).choice((-0.5, 0.5)) == luck)


@pytest.mark.parametrize(("luck", "word"), [(0.5, LUCKY), (-0.5, UNLUCKY)])
async def test_a_day_worked_by_hand(monkeypatch, luck, word):
    episode = on(monkeypatch, seed=seed_of(luck))
    rules, first = episode.opening()
    assert (rules.content, rules.lasting) == (RULES, True)
    assert (first.content, first.lasting) == (CLOSED, False)
    said = await play(episode, "open", "trade fish", "trade rice", "trade salt")
    assert [o.messages[0].content for o in said[:3]] == [
        f"{word}\nStalls: tea fish salt wool\nWanted: fish",
        f"{EARNED}\nStalls: rice silk bread tea\nWanted: tea",
        f"{MISSED}\nStalls: salt honey cloth fish\nWanted: salt",
    ]
    assert said[3].messages == ()
    # The luck first, then a third of 1 for each of three deals; the second is wrong.
    assert [o.reward for o in said] == [luck, 1 / 3, 0.0, 1 / 3]
    assert [o.score for o in said] == [0.0, 1 / 3, 1 / 3, 2 / 3]
    assert [o.end for o in said] == [None, None, None, End.FINISHED]
    with pytest.raises(RuntimeError, match=r"train-0.*over"):
        await episode.act("trade salt")


@pytest.mark.parametrize("luck", [0.5, -0.5])
async def test_the_score_is_1_exactly_if_all_deals_are_right_however_lucky_the_day(
    monkeypatch, luck
):
    said = await play(on(monkeypatch, seed=seed_of(luck)), *RIGHT)
    assert [o.score for o in said] == [0.0, 1 / 3, 2 / 3, 1.0]
    assert sum(o.reward for o in said) == pytest.approx(1 + luck)
    for wrong in (1, 2, 3):
        texts = [("trade pepper" if i == wrong else text) for i, text in enumerate(RIGHT)]
        said = await play(on(monkeypatch, seed=seed_of(luck)), *texts)
        assert said[-1].score == 2 / 3


async def test_only_a_lucky_day_without_a_wrong_deal_reaches_the_success_return(monkeypatch):
    # 0.5 + 1 against 0.5 + 2/3 and -0.5 + 1; halfway between the first two is 1.5 - 1/6.
    assert Market().success_return == pytest.approx(1.5 - 1 / 6)
    assert Market(turns=8, luck=0.2).success_return == pytest.approx(1.1 - 1 / 14)
    for luck, last, reaches in (
        (0.5, "trade salt", True), (0.5, "trade fish", False), (-0.5, "trade salt", False),
    ):  # fmt: skip
        said = await play(on(monkeypatch, seed=seed_of(luck)), *RIGHT[:3], last)
        assert (sum(o.reward for o in said) >= Market().success_return) == reaches


async def test_the_luck_does_not_depend_on_the_words(monkeypatch):
    for seed in range(10):
        said = [(await on(monkeypatch, seed=seed).act(t)) for t in ("open", "what?", "trade fish")]
        assert len({o.reward for o in said}) == 1
        heard = said[0].messages[0].content
        assert [o.messages[0].content for o in said[1:]] == [f"{MISUNDERSTOOD}\n{heard}"] * 2


async def test_a_day_without_luck_is_calm(monkeypatch):
    for seed in range(5):
        said = await on(monkeypatch, Market(luck=0.0), seed).act("open")
        assert said.reward == 0.0
        assert said.messages[0].content.startswith(CALM)


@pytest.mark.parametrize(
    "text",
    [
        "", "trade", "fish", "open", "trade gold", "trade fish tea", "I trade fish",
        "<think> trade fish", "<think> trade fish </think>", "tradefish",
    ],
)  # fmt: skip
async def test_text_that_means_nothing_is_no_deal_and_uses_a_turn(monkeypatch, text):
    episode = on(monkeypatch)
    _, said = await play(episode, "open", text)
    assert said.messages[0].content == f"{MISUNDERSTOOD}\nStalls: rice silk bread tea\nWanted: tea"
    assert (said.reward, said.score, episode.used) == (0.0, 0.0, 2)


@pytest.mark.parametrize(
    "text",
    [
        "trade fish",
        "**Trade: FISH.**",
        "<think> trade tea </think>\n trade fish",
        "Hm.\ntrade fish",
    ],
)
async def test_case_punctuation_and_other_lines_are_forgiven(monkeypatch, text):
    _, said = await play(on(monkeypatch), " Open! ", text)
    assert said.reward == 1 / 3


async def test_a_task_and_a_seed_are_the_same_every_time_and_a_seed_is_luck_alone():
    market = Market()
    days = {}
    for seed in (*range(20), *range(20)):
        episode = await market.open("test-5", seed)
        said = await episode.act("open")
        assert days.setdefault(seed, (episode.day, said)) == (episode.day, said)
    assert len({day for day, _ in days.values()}) == 1
    assert {said.reward for _, said in days.values()} == {-0.5, 0.5}
    other = await market.open("test-6", 0)
    assert other.day != days[0][0]


async def test_the_luck_is_fair():
    drawn = [
        (await (await Market(luck=3.0).open("train-0", s)).act("")).reward for s in range(2000)
    ]
    assert set(drawn) == {-1.5, 1.5}
    assert abs(fmean(drawn)) < 4 * 1.5 / 2000**0.5  # four standard errors


async def test_a_fork_before_the_luck_is_drawn_has_luck_of_its_own():
    episode = await Market().open("train-1", 3)
    twins = [episode.fork(seed) for seed in range(40)]
    assert {twin.state_key() for twin in twins} == {episode.state_key()}
    drawn = [(await twin.act("open")).reward for twin in twins]
    assert set(drawn) == {-0.5, 0.5}
    assert drawn == [(await episode.fork(seed).act("open")).reward for seed in range(40)]
    untouched = await Market().open("train-1", 3)
    assert await episode.act("open") == await untouched.act("open")


async def test_a_fork_after_the_luck_is_drawn_shares_it():
    for seed in range(10):
        episode = await Market().open("train-1", seed)
        await episode.act("open")
        twins = [episode.fork(s) for s in range(10)]
        assert {twin.state_key() for twin in twins} == {episode.state_key()}
        assert {twin.luck for twin in twins} == {episode.luck}
        wanted = episode.client.wanted
        said = [await twin.act(f"trade {wanted}") for twin in twins]
        assert all(o == said[0] for o in said)
        assert (episode.used, episode.right) == (1, 0)


async def test_the_state_tells_luck_and_right_deals_apart_but_not_wrong_ones(monkeypatch):
    async def keyed(seed, *texts):
        episode = on(monkeypatch, seed=seed)
        await play(episode, *texts)
        return episode.state_key()

    lucky, unlucky = seed_of(0.5), seed_of(-0.5)
    assert await keyed(lucky, "open") != await keyed(unlucky, "open")
    assert await keyed(lucky) == await keyed(unlucky)  # nothing has been drawn yet
    assert await keyed(lucky, "open", "trade fish") != await keyed(lucky, "open", "trade tea")
    assert await keyed(lucky, "open", "trade salt") == await keyed(lucky, "open", "trade tea")
    assert await keyed(lucky, "open", "") == await keyed(lucky, "open", "trade tea")


async def test_equal_states_have_equal_futures():
    chance = random.Random(0)
    market, seen = Market(turns=6), {}
    for i in range(300):
        episode = await market.open(f"train-{i % 3}", i)
        await episode.act("open")
        for turn in range(chance.randrange(4)):
            await episode.act(chance.choice([episode.demonstrate(7 * i + turn), "nonsense"]))
        key = episode.state_key()
        assert key == episode.fork(0).state_key()
        script, future, end = random.Random(str(key)), [], None
        while end is None:
            goods = (episode.client.wanted, *episode.client.stalls)
            said = await episode.act(f"trade {script.choice(goods)}")
            end = said.end
            future.append(said)
        assert seen.setdefault(key, future) == future
    assert len(seen) > 20


@pytest.mark.parametrize("turns", [2, 4, 8])
def test_the_splits_share_no_day(turns):
    days = {s: [Day.of(f"{s}-{i}", turns - 1) for i in range(1000)] for s in ("train", "test")}
    for split, drawn in days.items():
        assert all(day.split == split for day in drawn)
        assert all(len(day.clients) == turns - 1 for day in drawn)
    assert not set(days["train"]) & set(days["test"])
    assert Day.of("train-3", 3) == Day.of("train-3", 3) != Day.of("train-4", 3)


def test_every_good_is_wanted_at_every_stall():
    clients = [client for i in range(500) for client in Day.of(f"train-{i}", 3).clients]
    assert all(len(set(client.stalls)) == STALLS for client in clients)
    places = {(client.wanted, client.stalls.index(client.wanted)) for client in clients}
    assert places == {(good, place) for good in GOODS for place in range(STALLS)}


async def test_the_teacher_is_right_now_and_then_and_always_well_formed():
    market, shares = Market(), []
    for i in range(1000):
        episode, end, turn = await market.open(market.task("train", i), i), None, 0
        while end is None:
            text = episode.demonstrate(1000 * i + turn)
            assert text == episode.demonstrate(1000 * i + turn)
            said = await episode.act(text)
            assert not any(MISUNDERSTOOD in message.content for message in said.messages)
            end, turn = said.end, turn + 1
        assert (turn, end) == (4, End.FINISHED)
        shares.append(said.score)
        await episode.close()
    # 0.7 on purpose and, of the rest, one in four stalls by chance: 0.775 a deal, 0.465 a day.
    assert fmean(shares) == pytest.approx(0.775, abs=0.03)
    assert fmean(share == 1 for share in shares) == pytest.approx(0.465, abs=0.06)


def test_limits():
    assert [Market(turns=t).turn_limit for t in (2, 4, 8, 16)] == [2, 4, 8, 16]
    assert Market().forking is Forking.FORK
    assert Market().offers == {Offer.SCORES, Offer.TURN_REWARDS}
    for turns in (1, 17):
        with pytest.raises(ValueError, match=f"turns: got {turns}, needed 2 to 16"):
            Market(turns=turns)
    for luck in (-0.1, float("inf"), float("nan")):
        with pytest.raises(ValueError, match=f"luck: got {luck}, needed a finite number"):
            Market(luck=luck)
    with pytest.raises(ValueError, match="index: got -1"):
        Market().task("test", -1)
    with pytest.raises(LookupError, match="market has no answer that ends train-3 rightly"):
        Market().gold("train-3")


@pytest.mark.parametrize("task", ["", "train", "train-01", "train--1", "dev-1"])
async def test_an_unknown_task_is_refused(task):
    with pytest.raises(ValueError, match="market has no task"):
        await Market().open(task, 0)

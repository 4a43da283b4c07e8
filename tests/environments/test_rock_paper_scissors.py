"""Rock, paper, scissors: rounds worked by hand, habits told by their rules, forks and states."""

import itertools
from collections import defaultdict
from statistics import fmean

import pytest

from retrograde.data.offer import Offer
from retrograde.data.tree import End
from retrograde.environments.games.habits import (
    HABITS,
    TEST_HABITS,
    TRAIN_HABITS,
    Opponent,
    Round,
    result,
)
from retrograde.environments.games.rock_paper_scissors import (
    MISUNDERSTOOD,
    READY,
    RULES,
    RockPaperScissors,
)

ROCK, PAPER, SCISSORS = 0, 1, 2
ALL_ROUNDS = [Round(own, theirs) for own in range(3) for theirs in range(3)]


def against(kind, *numbers, noise=0.0):
    return Opponent(kind, numbers, noise)


def rounds(*pairs):
    return tuple(Round(*pair) for pair in pairs)


async def opened(opponent, environment=None, seed=0):
    episode = await (environment or RockPaperScissors(rounds=4)).open("train-0", seed)
    episode.opponent = opponent
    return episode


def test_what_beats_what():
    assert {(a, b): result(a, b) for a in range(3) for b in range(3)} == {
        (ROCK, ROCK): 0, (ROCK, PAPER): -1, (ROCK, SCISSORS): 1,
        (PAPER, ROCK): 1, (PAPER, PAPER): 0, (PAPER, SCISSORS): -1,
        (SCISSORS, ROCK): -1, (SCISSORS, PAPER): 1, (SCISSORS, SCISSORS): 0,
    }  # fmt: skip


async def test_a_match_worked_by_hand():
    # They repeat rock, scissors. Four rounds: paper beats rock; rock beats scissors; scissors
    # lose to rock; scissors draw. Two wins, one loss: each round won is 1/4, each lost -1/4.
    episode = await opened(against("short_cycle", ROCK, SCISSORS))
    rules, first = episode.opening()
    assert (rules.content, rules.lasting, first.content) == (RULES, True, READY)
    said = [await episode.act(f"play {m}") for m in ("paper", "rock", "scissors", "scissors")]
    assert [o.reward for o in said] == [0.25, 0.25, -0.25, 0.0]
    assert [o.messages[0].content for o in said[:3]] == [
        "You paper, they rock. You win.",
        "You rock, they scissors. You win.",
        "You scissors, they rock. You lose.",
    ]
    assert [o.end for o in said] == [None, None, None, End.FINISHED]
    assert said[-1].measures == (("score_difference", 1.0),)
    with pytest.raises(RuntimeError, match=r"train-0.*over"):
        await episode.act("play rock")


@pytest.mark.parametrize(
    ("moves", "difference", "win"),
    [
        (("paper", "rock", "scissors", "scissors"), 0.25, 1.0),  # 2 won, 1 lost
        (("paper", "paper", "scissors", "scissors"), -0.25, 0.0),  # 1 won, 2 lost
        (("paper", "scissors", "scissors", "scissors"), 0.0, 0.0),  # 1 won, 1 lost
    ],
)
async def test_rewards_at_the_end(moves, difference, win):
    for reward, earned in (("difference", difference), ("win", win)):
        environment = RockPaperScissors(rounds=4, reward=reward)
        episode = await opened(against("short_cycle", ROCK, SCISSORS), environment)
        rewards = [(await episode.act(f"play {move}")).reward for move in moves]
        assert rewards == [0.0, 0.0, 0.0, earned]
        assert (earned >= environment.success_return) == (difference > 0)
        assert environment.offers == frozenset()
    assert RockPaperScissors().offers == {Offer.TURN_REWARDS}


@pytest.mark.parametrize("text", ["", "play", "play stone", "rock or paper", "<think> play rock"])
async def test_words_that_mean_nothing_lose_the_round(text):
    episode = await opened(against("short_cycle", ROCK, SCISSORS))
    said = await episode.act(text)
    assert said.messages[0].content == f"{MISUNDERSTOOD}\nYou nothing, they rock."
    assert (said.reward, said.events, episode.losses) == (-0.25, ("action/malformed",), 1)


@pytest.mark.parametrize("text", ["Rock!", "**Play: ROCK**", "<think>paper</think>\nplay rock"])
async def test_case_and_punctuation_are_forgiven(text):
    said = await (await opened(against("short_cycle", SCISSORS, ROCK))).act(text)
    assert (said.reward, said.events) == (0.25, ())


@pytest.mark.parametrize(
    ("opponent", "history", "odds"),
    [
        (against("leaning", 8, 1, 1), (), (0.8, 0.1, 0.1)),
        (against("leaning", 8, 1, 1, noise=0.5), (), (1 / 6 + 0.4, 1 / 6 + 0.05, 1 / 6 + 0.05)),
        (against("short_cycle", 2, 0, 1), rounds((0, 2), (0, 0)), (0, 1, 0)),
        # Answers paper, moved on by one: scissors.
        (against("reaction", 1), rounds((PAPER, ROCK)), (0, 0, 1)),
        (against("reaction", 1), (), (1 / 3, 1 / 3, 1 / 3)),
        # It won with paper against rock, and stays; it lost with paper, and moves on by two.
        (against("win_stay", 1, 2), rounds((ROCK, PAPER)), (0, 1, 0)),
        (against("win_stay", 1, 2), rounds((SCISSORS, PAPER)), (1, 0, 0)),
        (against("win_stay", 1, 2), rounds((PAPER, PAPER)), (0, 0, 1)),
        (against("win_shift", 1, 2), rounds((ROCK, PAPER)), (1, 0, 0)),
        (against("win_shift", 1, 2), rounds((SCISSORS, PAPER)), (0, 1, 0)),
        # Rock twice, paper once: paper beats rock.
        (against("frequency"), rounds((0, 0), (1, 0), (0, 0)), (0, 1, 0)),
        # Rock and paper once each: paper or scissors.
        (against("frequency"), rounds((0, 0), (1, 0)), (0, 0.5, 0.5)),
        # Rock was followed by paper; now rock again, so paper is to come: scissors.
        (against("markov_1"), rounds((0, 0), (1, 0), (0, 0)), (0, 0, 1)),
        # Rock, paper was followed by scissors; the same again, so scissors are to come: rock.
        (against("markov_2"), rounds((0, 0), (1, 0), (2, 0), (0, 0), (1, 0)), (1, 0, 0)),
        (against("long_cycle", 0, 0, 1, 2), rounds(*[(0, 0)] * 6), (0, 1, 0)),
        # Two rounds ago: paper. One round is too few.
        (against("delayed_reaction", 0), rounds((1, 0), (2, 0)), (0, 1, 0)),
        (against("delayed_reaction", 0), rounds((1, 0)), (1 / 3, 1 / 3, 1 / 3)),
        # Paper (1) and scissors (2) and one more: 4 is 1 again.
        (against("sum", 1), rounds((1, 2)), (0, 1, 0)),
        # Of the last three, scissors twice: rock. The three rocks before are forgotten.
        (against("recent_frequency"), rounds(*[(0, 0)] * 3, (2, 0), (1, 0), (2, 0)), (1, 0, 0)),
    ],
)  # fmt: skip
def test_habits_worked_by_hand(opponent, history, odds):
    assert opponent.chances(history) == pytest.approx(odds)


def a_number_of_each_kind():
    seen = {}
    for split, index in itertools.product(("train", "test"), range(60)):
        opponent = Opponent.of(split, index, "kinds")
        seen.setdefault(opponent.kind, opponent)
    assert seen.keys() == HABITS.keys()
    return seen.values()


@pytest.mark.parametrize("opponent", a_number_of_each_kind(), ids=lambda o: o.kind)
def test_what_an_opponent_remembers_is_its_whole_state(opponent):
    grouped = defaultdict(list)
    for length in range(4):
        for history in itertools.product(ALL_ROUNDS[::2], repeat=length):
            grouped[opponent.memory(history)].append(history)
    for alike in grouped.values():
        for after in (*itertools.product(ALL_ROUNDS[:4], repeat=1), *[(r, r) for r in ALL_ROUNDS]):
            futures = {opponent.memory(history + after) for history in alike}
            assert len(futures) == 1
            assert len({opponent.chances(history + after) for history in alike}) == 1


def test_opponents_in_training_and_test_are_of_other_kinds_or_have_other_parameters():
    assert not TRAIN_HABITS.keys() & TEST_HABITS.keys()
    drawn = {s: {Opponent.of(s, i, "kinds") for i in range(300)} for s in ("train", "test")}
    assert {o.kind for o in drawn["train"]} == TRAIN_HABITS.keys()
    assert {o.kind for o in drawn["test"]} == TEST_HABITS.keys()
    drawn = {s: {Opponent.of(s, i, "parameters") for i in range(300)} for s in ("train", "test")}
    assert not drawn["train"] & drawn["test"]
    assert len({o.kind for o in drawn["train"]} & {o.kind for o in drawn["test"]}) > 8


async def test_a_task_and_a_seed_are_the_same_every_time_and_the_seed_is_chance_alone():
    environment = RockPaperScissors(rounds=30)
    futures = {}
    for seed in (*range(5), *range(5)):
        episode = await environment.open("train-3", seed)
        said = [await episode.act("play rock") for _ in range(30)]
        assert futures.setdefault(seed, (episode.opponent, said)) == (episode.opponent, said)
    assert len({opponent for opponent, _ in futures.values()}) == 1


async def test_a_fork_has_chance_of_its_own_and_leaves_its_origin_alone():
    noisy = against("leaning", 1, 1, 1)
    episode = await opened(noisy, RockPaperScissors(rounds=12))
    await episode.act("play paper")
    twins = [episode.fork(seed) for seed in (1, 1, 2, 3)]
    assert {twin.state_key() for twin in twins} == {episode.state_key()}
    futures = [[(await twin.act("play rock")).reward for _ in range(8)] for twin in twins]
    assert futures[0] == futures[1]
    assert len({tuple(future) for future in futures}) == 3
    assert (episode.used, len(episode.history)) == (1, 1)
    steady = await opened(against("short_cycle", ROCK, SCISSORS))
    assert (await steady.fork(1).act("play rock")) == (await steady.fork(2).act("play rock"))


async def test_the_state_tells_results_and_memories_apart():
    async def keyed(opponent, *moves):
        episode = await opened(opponent)
        for move in moves:
            await episode.act(f"play {move}")
        return episode.state_key()

    cycle = against("short_cycle", ROCK, ROCK)
    assert await keyed(cycle, "paper", "rock") == await keyed(cycle, "rock", "paper")
    assert await keyed(cycle, "paper", "rock") != await keyed(cycle, "paper", "paper")
    reaction = against("reaction", 0)  # what it plays next depends on the last move
    ended = [await keyed(reaction, "rock", move) for move in ("rock", "paper", "scissors")]
    assert len(set(ended)) == 3


async def test_the_teacher_wins_more_often_than_chance_and_is_understood():
    environment = RockPaperScissors()
    won = defaultdict(list)
    for split in ("train", "test"):
        for i in range(150):
            episode = await environment.open(environment.task(split, i), i)
            said = [await episode.act(episode.demonstrate(50 * i + t)) for t in range(10)]
            assert not any(o.events for o in said)
            won[split].append(sum(o.reward for o in said) >= environment.success_return)
    # By chance 0.42: 10 rounds are drawn over all with probability 0.15.
    assert all(0.6 < fmean(wins) < 0.85 for wins in won.values())


def test_limits():
    assert RockPaperScissors(rounds=7).turn_limit == 7
    for number in (2, 31):
        with pytest.raises(ValueError, match=f"rounds: got {number}, needed 3 to 30"):
            RockPaperScissors(rounds=number)
    with pytest.raises(LookupError, match="rock_paper_scissors does not know"):
        RockPaperScissors().gold("train-0")

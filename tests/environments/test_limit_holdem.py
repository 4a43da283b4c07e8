"""Limit hold'em: hands worked by hand, duplicate deals, forks, mistakes, and no leaks of chance."""

import random
from collections import defaultdict
from statistics import fmean

import numpy as np
import pytest

from retrograde.data.tree import End
from retrograde.environments.games.bettors import (
    TEST_WAYS,
    TRAIN_WAYS,
    WAYS,
    Bettor,
    legal_one,
    strength,
)
from retrograde.environments.games.limit_holdem import (
    GIVEN_UP,
    ILLEGAL,
    MISUNDERSTOOD,
    LimitHoldem,
)
from retrograde.environments.games.table import MOST_DECISIONS, Table, View
from retrograde.environments.games.tournament import duplicate, hand, tournament

rlcard_games = pytest.importorskip("rlcard.games.base")
CALLING = Bettor("calling")
TIGHT = Bettor("tight_passive", (0.4, 0.9, 0.0))


def card(text):
    return rlcard_games.Card(text[1].upper(), text[0])


def stacked(first, second, coming):
    """A table with chosen cards; seat 0 has the small blind."""
    seed = next(seed for seed in range(50) if Table.dealt(seed).turn == 0)
    table = Table.dealt(seed)
    for player, cards in enumerate((first, second)):
        table.game.players[player].hand = [card(text) for text in cards.split()]
    table.game.dealer.deck = [card(text) for text in reversed(coming.split())]
    return table


def aces():
    return stacked("As Ah", "Kd Kc", "2s 7d 9h Jc 3s")


async def at(monkeypatch, table, seat=0, opponent=CALLING, **options):
    """An episode that begins at a table, in one of its seats."""
    with monkeypatch.context() as patched:
        patched.setattr(Table, "dealt", classmethod(lambda cls, seed: table))
        patched.setattr(Bettor, "of", classmethod(lambda cls, split, index: opponent))
        return await LimitHoldem(deck="task", **options).open(f"train-{seat}", 0)


async def test_a_hand_worked_by_hand(monkeypatch):
    # Small blind 1. Raise: to the big blind's 2 and 2 more, 4 each once called. Flop: check,
    # check. Turn: a bet of 4, called, 8 each. River: check, check. Aces beat kings: 8 chips
    # won, 4 big blinds.
    episode = await at(monkeypatch, aces())
    rules, first = episode.opening()
    assert rules.lasting
    assert first.content == (
        "You have the small blind.\nYour cards: As Ah\nBoard: nothing\nChips you, they: 1 2\n"
        "Played: nothing\nYou may: call raise fold"
    )
    said = [await episode.act(text) for text in ("raise", "check", "Raises.", "check")]
    assert said[2].messages[0].content == (
        "You have the small blind.\nYour cards: As Ah\nBoard: 2s 7d 9h Jc 3s\n"
        "Chips you, they: 8 8\nPlayed: preflop you raise they call flop you check they check "
        "turn you raise they call\nYou may: raise fold check"
    )
    assert [(o.reward, o.end) for o in said[:3]] == [(0.0, None)] * 3
    assert (said[3].reward, said[3].end) == (4.0, End.FINISHED)
    assert said[3].measures == (("big_blinds_per_hand", 4.0), ("ahead", 1.0))
    with pytest.raises(RuntimeError, match=r"train-0.*over"):
        await episode.act("call")


@pytest.mark.parametrize(
    ("seat", "texts", "payoff"),
    [
        (0, ["fold"], -0.5),  # the small blind
        (0, ["call", "fold"], -1.0),  # called up to the big blind
        (1, ["check", "check", "check", "check"], -1.0),  # kings, called all the way
        # Four raises a round: 2 + 2 * 4 = 10 chips, then 8, then 16 and 16: 50, or 25 blinds.
        (0, ["raise"] * 12, 25.0),
    ],
)
async def test_payoffs_in_big_blinds(monkeypatch, seat, texts, payoff):
    raises = Bettor("coin", (1.0,)) if payoff == 25 else CALLING
    episode = await at(monkeypatch, aces(), seat, raises, unit=0.5)
    said, texts = None, [*texts, *["call"] * 4]
    while said is None or said.end is None:
        text = texts.pop(0)
        said = await episode.act(text if text in episode.table.legal else "call")
    assert said.reward == payoff / 0.5
    assert sum(episode.won) == payoff


async def test_a_pot_is_split(monkeypatch):
    table = stacked("As Kh", "Ad Kc", "2s 7d 9h Jc 3s")
    episode = await at(monkeypatch, table)
    said = [await episode.act(text) for text in ("raise", "check", "check", "check")]
    assert (said[-1].reward, said[-1].end) == (0.0, End.FINISHED)


async def test_what_is_not_possible_is_a_mistake_and_too_many_fold(monkeypatch):
    episode = await at(monkeypatch, aces(), patience=3)
    before = episode.opening()[1].content
    for text, complaint, event in (
        ("check", ILLEGAL, "action/illegal"),
        ("all in!", MISUNDERSTOOD, "action/malformed"),
    ):
        said = await episode.act(text)
        assert said.messages[0].content == f"{complaint}\n{before}"
        assert (said.events, said.reward, said.end) == ((event,), 0.0, None)
    said = await episode.act("")
    assert (said.reward, said.end, said.events) == (-0.5, End.FINISHED, ("action/malformed",))


async def test_mistakes_are_forgotten_with_each_hand_and_results_are_told():
    environment = LimitHoldem(hands=2, patience=1)
    episode = await environment.open("train-0", 0)
    said = await episode.act("nonsense")
    assert said.messages[0].content.startswith(f"{MISUNDERSTOOD} {GIVEN_UP}\nPlayed: preflop ")
    assert f"Won: {episode.won[0]:g}\n2 You have the" in said.messages[0].content
    assert (episode.mistakes, said.reward, said.end) == (0, episode.won[0], None)


async def played(environment, task, seed, texts=None):
    episode, told = await environment.open(task, seed), []
    while not told or told[-1].end is None:
        text = texts[len(told)] if texts else episode.demonstrate(len(told))
        told.append(await episode.act(text))
    return episode, told


async def test_a_task_and_a_seed_are_the_same_every_time_and_touch_no_shared_chance():
    environment = LimitHoldem(hands=3)
    state, words = np.random.get_state(), random.getstate()  # noqa: NPY002 - what must not move
    openings, futures = set(), {}
    for seed in (*range(4), *range(4)):
        _, told = await played(environment, "train-7", seed)
        assert futures.setdefault(seed, told) == told
        openings.add((await environment.open("train-7", seed)).opening())
    assert len(openings) == 1
    assert len({str(told) for told in futures.values()}) > 1
    assert all((a == b).all() for a, b in zip(state[1:2], np.random.get_state()[1:2], strict=True))  # noqa: NPY002
    assert words == random.getstate()


async def test_two_tasks_are_one_deal_from_both_seats():
    environment = LimitHoldem(deck="task")
    for number in range(6):
        one, other = [await environment.open(f"test-{2 * number + seat}", 5) for seat in (0, 1)]
        assert one.deal == other.deal
        assert one.opponent == other.opponent
        for player in (0, 1):
            assert one.table.cards(player) == other.table.cards(player)
        assert [c.get_index() for c in one.table.game.dealer.deck] == [
            c.get_index() for c in other.table.game.dealer.deck
        ]
        assert (one.seat, other.seat) == (0, 1)
        smalls = ["small" in episode.opening()[1].content for episode in (one, other)]
        assert sorted(smalls) == [False, True]


async def test_in_a_duplicate_match_equal_players_come_out_even(monkeypatch):
    # Both seats call whatever comes: what one loses from one seat it wins from the other.
    monkeypatch.setattr(Bettor, "of", classmethod(lambda cls, split, index: CALLING))
    environment, earned = LimitHoldem(deck="task"), []
    for number in range(10):
        pair = []
        for seat in (0, 1):
            episode, said = await environment.open(f"train-{2 * number + seat}", seat), None
            while said is None or said.end is None:
                said = await episode.act(legal_one("call", episode.table.legal))
            pair.append(said.reward)
        assert sum(pair) == 0
        earned.append(pair[0])
    assert len(set(earned)) > 1


def coming(episode):
    return [one.get_index() for one in episode.table.game.dealer.deck]


@pytest.mark.parametrize("deck", ["seed", "task"])
async def test_a_fork_keeps_what_was_dealt_and_shuffles_what_was_not(deck):
    episode = await LimitHoldem(deck=deck).open("train-4", 1)
    await episode.act("call" if "call" in episode.table.legal else "check")
    key, cards, before = episode.state_key(), episode.table.board, coming(episode)
    twins = [episode.fork(seed) for seed in (1, 1, 2)]
    for twin in twins:
        assert twin.state_key() == key
        assert (twin.table.board, sorted(coming(twin))) == (cards, sorted(before))
        assert [twin.table.cards(p) for p in (0, 1)] == [episode.table.cards(p) for p in (0, 1)]
    assert coming(twins[0]) == coming(twins[1])
    assert (coming(twins[0]) == coming(twins[2])) == (deck == "task")
    for twin in twins:
        while not twin.over:
            await twin.act(legal_one("call", twin.table.legal))
    assert (episode.state_key(), coming(episode)) == (key, before)


async def test_the_state_tells_hidden_cards_and_bets_apart(monkeypatch):
    async def keyed(table, *texts, **options):
        episode = await at(monkeypatch, table, **options)
        for text in texts:
            await episode.act(text)
        return episode.state_key()

    hidden = stacked("As Ah", "Kd Qc", "2s 7d 9h Jc 3s")
    assert await keyed(aces()) == await keyed(aces())
    assert await keyed(aces()) != await keyed(hidden)
    assert await keyed(aces(), "raise") != await keyed(aces(), "call")
    assert await keyed(aces(), "check") != await keyed(aces())  # a mistake


def test_opponents_in_training_and_test_are_of_other_kinds():
    assert not TRAIN_WAYS.keys() & TEST_WAYS.keys()
    for split, ways in (("train", TRAIN_WAYS), ("test", TEST_WAYS)):
        assert {Bettor.of(split, i).kind for i in range(80)} == ways.keys()


def seen(cards, board="", legal=("call", "raise", "fold")):
    return View(tuple(cards.split()), tuple(board.split()), legal, (0, 0), "flop")


def test_stronger_hands_look_stronger():
    order = [
        ("7d 2c", "Ks Qh 9s"),  # nothing
        ("9d 2c", "Ks Qh 9s"),  # a low pair
        ("Kd 2c", "Ks Qh 9s"),  # the highest pair
        ("Kd Qc", "Ks Qh 9s"),  # two pairs
        ("9d 9c", "Ks Qh 9s"),  # three of a kind
        ("As 2s", "Ks Qs 9s"),  # a flush
    ]
    held = [strength(seen(*hand)) for hand in order]
    assert held == sorted(held)
    assert len(set(held)) == len(held)
    assert strength(seen("Jd Tc", "Ks Qh 9s")) == strength(seen("Ad 2c", "3s 4h 5s")) == 0.95
    assert strength(seen("Ad 7c", "9s Th Js Qd Kc")) > 0.9  # the ace makes the board's longer
    assert strength(seen("2d 3c", "9s Th Js Qd Kc")) < 0.9  # the straight is the board's
    before = [strength(seen(cards)) for cards in ("7d 2c", "Ks Qs", "2d 2c", "Ad Ac")]
    assert before == [0.6 * 5 / 24, 0.6 * 21 / 24 + 0.1, 0.55, 1.0]


@pytest.mark.parametrize(
    ("bettor", "view", "action"),
    [
        (Bettor("calling"), seen("7d 2c"), "call"),
        (Bettor("coin", (1.0,)), seen("7d 2c"), "raise"),
        (TIGHT, seen("7d 2c"), "fold"),
        (TIGHT, seen("7d 2c", legal=("check", "raise", "fold")), "check"),
        (Bettor("tight_aggressive", (0.4, 0.6, 0.0)), seen("Ad Ac"), "raise"),
        (Bettor("trap", (0.6,)), seen("Kd Kc", "Ks Qh 9s"), "call"),
        (Bettor("polar", (1.0,)), seen("7d 2c", "Ks Qh 9s"), "raise"),
        (Bettor("rlcard_rule"), seen("7d 2c"), "fold"),
        (Bettor("rlcard_rule"), seen("Ad Ac"), "raise"),
    ],
)  # fmt: skip
def test_styles_worked_by_hand(bettor, view, action):
    assert bettor(view, random.Random(0)) == action


@pytest.mark.slow
def test_the_rule_model_is_rlcards():
    agent = pytest.importorskip("rlcard.models.limitholdem_rule_models").LimitholdemRuleAgentV1
    differs = 0
    for seed in range(400):
        table, chance = Table.dealt(seed), random.Random(seed)
        while not table.over:
            view = table.view(table.turn)
            raw = {
                "hand": [f"{c[1].upper()}{c[0]}" for c in view.cards],
                "public_cards": [f"{c[1].upper()}{c[0]}" for c in view.board],
            }
            theirs = agent.step({"raw_legal_actions": list(view.legal), "raw_obs": raw})
            ours = WAYS["rlcard_rule"].style(view, (), chance)
            assert ours == theirs, (view, ours, theirs)
            differs += theirs != "fold"
            table.act(chance.choice([a for a in view.legal if a != "fold"]))
    assert differs > 500


async def test_no_hand_takes_more_decisions_than_the_limit_says():
    environment, raiser = LimitHoldem(), Bettor("coin", (0.95,))
    for number in range(60):
        episode, turns = await environment.open(f"train-{number}", number), 0
        episode.opponent = raiser
        while not episode.over:
            legal = episode.table.legal
            await episode.act("raise" if "raise" in legal else legal_one("call", legal))
            turns += 1
        assert turns <= MOST_DECISIONS < environment.turn_limit


async def test_the_teacher_is_understood_and_every_hand_is_paid_for_once():
    environment, kinds = LimitHoldem(hands=3), defaultdict(list)
    for number in range(60):
        episode, told = await played(environment, f"train-{number}", number)
        assert not any(o.events for o in told)
        assert sum(o.reward for o in told) == sum(episode.won)
        kinds[episode.opponent.kind].append(told[-1].measures[0][1])
    assert all(-25 <= fmean(won) <= 25 for won in kinds.values())


def test_a_tournament_is_fair_and_finds_who_is_better():
    folds = lambda view, chance: "fold"  # noqa: E731 - short
    calls = lambda view, chance: "call"  # noqa: E731
    assert sum(hand((calls, calls), 3, 0)) == 0
    assert duplicate(calls, calls, 3, 0) == 0
    found = tournament(
        {"folds": folds, "calls": calls, "tight": Bettor("tight_aggressive", (0.3, 0.6, 0.0))},
        deals=25,
    )
    assert sum(standing.big_blinds for standing in found.values()) == pytest.approx(0)
    assert found["folds"].rating.value < min(found[n].rating.value for n in ("calls", "tight"))
    assert all(s.low < s.big_blinds < s.high for s in found.values())
    assert found["folds"].rating.games == 50
    with pytest.raises(ValueError, match="at least 2 players and 2 deals"):
        tournament({"folds": folds})


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"hands": 0}, "hands: got 0, needed 1 to 50"),
        ({"unit": 0.0}, "unit: got 0.0"),
        ({"patience": 0}, "patience: got 0"),
    ],
)
def test_bad_options_are_refused(options, problem):
    with pytest.raises(ValueError, match=problem):
        LimitHoldem(**options)

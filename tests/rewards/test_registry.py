"""Rewards as they are asked for."""

import asyncio

import pytest

from retrograde.data.offer import Offer
from retrograde.environments.hop import Hop
from retrograde.environments.market import Market
from retrograde.rewards.form import Format, Length, Overlong
from retrograde.rewards.gold import ExactMatch
from retrograde.rewards.registry import REWARDS, rewards_named, weighted
from retrograde.rewards.weighted import EachTurn, Rewards, Weighted, offered

from .records import record


def test_a_name_a_weight_and_options():
    assert weighted("exact_match") == Weighted("exact_match", ExactMatch(), 1.0, "exact_match")
    assert weighted("exact_match=0.5").weight == 0.5
    made = weighted("length(target=10, most=14)=2e-1")
    assert (made.function, made.weight) == (Length(10, 14), 0.2)
    assert made.label == "length(target=10, most=14)"
    made = weighted(r"format(pattern='a=(b|c)\\)')=1")
    assert made.function == Format(pattern=r"a=(b|c)\)")


def test_penalties_have_a_negative_weight():
    assert weighted("overlong").weight == -1.0
    assert weighted("overlong=-0.5").weight == -0.5
    assert weighted("overlong").function == EachTurn(Overlong())
    assert weighted("invalid_action").weight == -1.0
    for words in ("overlong=0.5", "invalid_action=0"):
        with pytest.raises(ValueError, match="counts what is bad, so a weight below 0 is needed"):
            weighted(words)


def test_everything_shipped_is_documented_and_says_what_it_takes():
    options = {"length": "(target=5)", "judge": "(url='http://localhost:1/v1', model='m')"}
    for name, shipped in REWARDS.items():
        made = weighted(name + options.get(name, ""))
        assert made.name == name
        assert made.is_for_turns == shipped.is_for_turns
        assert made.function.__doc__


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("exact_mtach", "no reward is named 'exact_mtach'; did you mean exact_match"),
        ("exact_match=much", "the weight is a number, got 'much'"),
        ("exact_match=nan", "a finite weight is needed, got nan"),
        ("length", "missing a required argument: 'target'; its options: target, most"),
        ("f1(goal=3)", "got an unexpected keyword argument 'goal'; its options: column"),
        ("length(3)", "options are written"),
        ("length(target=me)", "options are written"),
        ("length(**{'target': 3})", "options are written"),
        ("length(target='far')", "not supported between .*; its options: target, most"),
        ("length(target=", "NAME, NAME=WEIGHT or NAME"),
        ("length(target=3,,)", "options are written"),
        ("environment(x=1)", "unexpected keyword argument 'x'"),
        ("no.such.module:f", "reward 'no.such.module:f': known are environment, exact_match"),
        ("nowhere.py:f", "reward 'nowhere.py:f': there is no file nowhere.py"),
        ("retrograde.rewards.gold:f2", "there is no 'f2' in retrograde.rewards.gold"),
        ("", "NAME, NAME=WEIGHT or NAME"),
    ],
)
def test_what_cannot_be_is_refused(words, problem):
    with pytest.raises(ValueError, match=problem.replace("(", r"\(")):
        weighted(words)


def test_rewards_of_ones_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "from dataclasses import dataclass\n"
        "from retrograde.rewards.weighted import EachTurn\n"
        "def plain(episode): return len(episode.turns)\n"
        "async def slow(episode): return 0.5\n"
        "@EachTurn\n"
        "def each(episode): return episode.last.tokens\n"
        "@dataclass(frozen=True)\n"
        "class Made:\n"
        "    by: float = 2.0\n"
        "    def __call__(self, episode): return self.by\n"
    )
    there = record("a b", "c")
    values = {}
    for words in ("plain", "slow", "each", "Made", "Made(by=3)"):
        made = weighted(f"mine.py:{words}=0.5")
        assert made.weight == 0.5
        assert made.is_for_turns == (words == "each")
        values[words] = asyncio.run(made.value(there))
    assert values == {"plain": 2.0, "slow": 0.5, "each": 2.0, "Made": 2.0, "Made(by=3)": 3.0}
    assert weighted("mine.py:Made(by=3)").name == "Made"


def test_several_are_named_once_each():
    rewards = rewards_named(["environment", "overlong=-0.5"])
    assert rewards.has_environment
    assert rewards.labels == {"environment": 1.0, "overlong": -0.5}
    assert rewards_named([]) is None
    with pytest.raises(ValueError, match="f1 is named 2 times"):
        rewards_named(["f1", "f1=0.5"])
    with pytest.raises(ValueError, match="reward/std is what the journal calls something else"):
        Rewards((Weighted("std", ExactMatch()),))
    with pytest.raises(ValueError, match="at least one is needed"):
        Rewards(())


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (float("nan"), ValueError),
        (float("-inf"), ValueError),
        (None, TypeError),
        ("0.5", TypeError),
        (1j, TypeError),
    ],
)
async def test_what_is_no_finite_number_is_no_reward(value, error):
    with pytest.raises(error, match=r"reward odd: a (finite )?number is needed, got"):
        await Weighted("odd", lambda _: value).value(record("a"))


async def test_any_real_number_will_do():
    import numpy as np

    for value in (1, True, np.float32(1), np.int64(1)):
        assert await Weighted("fine", lambda _, value=value: value).value(record("a")) == 1.0


def test_turn_rewards_are_offered_where_turns_are_rewarded():
    outcome, turns = weighted("exact_match"), weighted("overlong")
    own = weighted("environment")
    assert offered(Hop(), None) == Hop().offers
    assert Offer.TURN_REWARDS in offered(Market(), None)
    for world, parts, is_offered in [
        (Market(), (outcome,), False),
        (Market(), (outcome, own), True),
        (Hop(), (outcome, own), False),
        (Hop(), (outcome, turns), True),
    ]:
        found = offered(world, Rewards(parts))
        assert (Offer.TURN_REWARDS in found) == is_offered
        assert found - {Offer.TURN_REWARDS} == world.offers - {Offer.TURN_REWARDS}

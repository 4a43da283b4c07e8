"""Every environment keeps the contract, and every rule finds environments that break it alone."""

import asyncio
import json
from pathlib import Path

import pytest

from retrograde.environments import conformance
from retrograde.environments.conformance import RULES, Verdict
from retrograde.environments.extras import is_installed
from retrograde.environments.hop import Hop
from retrograde.environments.lake import Lake
from retrograde.environments.market import Market
from retrograde.environments.plain import PlainEnvironment, PlainEpisode
from retrograde.environments.protocol import Forking
from retrograde.environments.registry import ENVIRONMENTS, NEEDS, environment_named
from retrograde.environments.threaded import Threaded

from .bells import BROKEN, Bells
from .tools.worlds import adding

OWN = Path(__file__).parent / "verifiers" / "own_environments.py"

SLOW = frozenset({"textworld"})
"""Environments that take long to make a task; `make test-slow` looks at one of each split."""


def asked(folder):
    """Questions in a file, over passages in another."""
    questions = [{"question": f"What is number {i}?", "answer": f"n{i}"} for i in range(60)]
    passages = [{"title": f"Number {i}", "text": f"Number {i} is n{i}."} for i in range(60)]
    for name, rows in (("questions", questions), ("passages", passages)):
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return environment_named("qa_search")(
        questions=str(folder / "questions.jsonl"), passages=str(folder / "passages.jsonl")
    )


MADE = {
    "gym": lambda _folder: environment_named("gym:CartPole-v1")(),
    "qa_search": asked,
    "reasoning": lambda _folder: environment_named("reasoning:countdown")(),
    "tools": lambda _folder: adding(deterministic=True),
    "verifiers": lambda _folder: environment_named(f"verifiers:{OWN}:guessing")(),
}
"""How environments are made that are nothing without a file or a name."""
MISSING = {name: [m for m in NEEDS[name][0] if not is_installed(m)] for name in NEEDS}
MISSING["verifiers"] = [] if is_installed("verifiers") else ["verifiers"]


def named(name):
    """An environment of the registry, as a test of its own."""
    missing = MISSING.get(name, [])
    marks = [pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} not installed")]
    if name in SLOW:
        marks.append(pytest.mark.slow)
    return pytest.param(name, marks=marks, id=name)


@pytest.mark.parametrize("name", [named(name) for name in ENVIRONMENTS])
async def test_an_environment_that_ships_keeps_the_contract(name, tmp_path):
    world = MADE[name](tmp_path) if name in MADE else environment_named(name)()
    tasks = 1 if name in SLOW else 2
    (await conformance.check(world, tasks=tasks, seconds=600.0)).confirm()


@pytest.mark.parametrize(
    "world",
    [Bells(), Threaded(Bells()), Hop(hops=1), Hop(hops=5, context="full"), Market(turns=2)],
    ids=repr,
)
async def test_and_so_it_does_otherwise_set(world):
    (await conformance.check(world, seed=1)).confirm()


async def test_chance_is_seen_where_there_is_some():
    for world, chance in [(Lake(slip=True, turns=16), True), (Lake(), False), (Bells(), True)]:
        report = await conformance.check(world)
        report.confirm()
        assert (report.verdict("chance") is Verdict.KEPT) == chance


def test_every_rule_has_an_environment_that_breaks_it():
    assert set(BROKEN) == set(RULES)


@pytest.mark.parametrize(
    ("rule", "kind"),
    [
        pytest.param(rule, kind, id=f"{rule}-{kind.__name__}")
        for rule, kinds in BROKEN.items()
        for kind in kinds
    ],
)
async def test_what_is_broken_is_named_and_nothing_else(rule, kind):
    report = await conformance.check(kind())
    assert [finding.rule for finding in report.broken] == [rule], report
    with pytest.raises(AssertionError, match=f"breaks its contract:\n  {rule}: "):
        report.confirm()


async def test_what_cannot_be_looked_at_is_not_called_kept():
    (random,) = BROKEN["determinism"]
    report = await conformance.check(random())
    for rule, (_, needs) in RULES.items():
        if "determinism" in needs:
            assert report.verdict(rule) is Verdict.NOT_CHECKED
    assert report.verdict("limits") is Verdict.KEPT


async def test_an_environment_that_hangs_is_found_out():
    class Waits(PlainEpisode):
        def opening(self):
            return BellsOpening

        async def act(self, text):
            await asyncio.sleep(60)

    class World(PlainEnvironment):
        turn_limit = 3

        async def open(self, task, seed):
            if task == "no such task":
                raise ValueError(task)
            return Waits()

    report = await conformance.check(World(), seconds=0.1)
    assert [finding.rule for finding in report.broken] == ["observations"]
    assert report.broken[0].detail == "it took longer than 0.1 s"
    assert report.verdict("data") is Verdict.NOT_APPLICABLE


BellsOpening = asyncio.run(Bells().open("train-0", 0)).opening()


async def test_only_some_rules_can_be_asked_for():
    report = await conformance.check(Bells(), rules=["transcript"])
    assert [finding.rule for finding in report.findings] == [
        "opening", "observations", "determinism", "transcript",
    ]  # fmt: skip
    assert report.plain()["findings"][0]["verdict"] == "kept"


async def test_an_environment_without_teacher_or_gold_is_played_all_the_same():
    class Quiet(PlainEpisode):
        def __init__(self, inner):
            self.inner, self.opening, self.act = inner, inner.opening, inner.act

    class World(PlainEnvironment):
        name = "quiet"
        forking = Forking.NONE
        turn_limit = Bells.turn_limit
        offers = frozenset({*Bells.offers})
        gold = Bells.gold

        async def open(self, task, seed):
            return Quiet(await Bells().open(task, seed))

    report = await conformance.check(World())
    report.confirm()
    assert report.verdict("teacher") is Verdict.NOT_APPLICABLE
    # Nobody there knows how to ring, so the time to say "done" never comes.
    assert report.verdict("gold") is Verdict.NOT_APPLICABLE

"""The contract of an environment, from the command line."""

import json

import pytest

from retrograde.environments.conformance import RULES

LYING = "tests.environments.bells:Lying"


def test_every_rule_is_told(retrograde):
    words = ["--environment", "lake", "--environment.slip", "--tasks", "4"]
    said = retrograde("doctor", *words)
    assert said.code == 0, said.err
    assert said.out.startswith("environment lake\n  forking: fork\n  offers: scores\n")
    for rule in RULES:
        assert f"{rule}: " in said.out
    assert 'seen: {"turns": 8, "slip": true, "context": "markov"}' in said.out
    assert "seen: chance in" in said.out
    assert "not applicable: GOLD is not offered" in said.out
    assert said.out.endswith("environment lake: proven\n")


def test_json(retrograde):
    said = retrograde("doctor", "--environment", "hop", "--json", "--seed", "3")
    assert said.code == 0
    found = json.loads(said.out)
    assert found["proven"] is True
    (report,) = found["reports"]
    assert [finding["name"] for finding in report["findings"]] == list(RULES)
    verdicts = {finding["name"]: finding["verdict"] for finding in report["findings"]}
    assert (verdicts["fork"], verdicts["replay"]) == ("proven", "note")


@pytest.mark.parametrize("words", [[], ["--threaded"]])
def test_a_broken_rule_is_a_failure(retrograde, words):
    said = retrograde("doctor", "--environment", LYING, *words)
    assert said.code == 1
    assert "  failed  chance: " in said.out
    assert "fork(seed) has to draw what is still to come from its seed" in said.out
    assert said.out.endswith("environment bells: not proven, 1 failed\n")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["hopp"], "no environment is named 'hopp'"),
        (["hop", "--tasks", "0"], "--tasks: at least 1 is needed, got 0"),
        (["hop", "--environment.hopps", "3"], "hopps"),
    ],
)
def test_bad_input(retrograde, words, problem):
    said = retrograde("doctor", "--environment", *words)
    assert said.code == 2
    assert problem in said.err

"""The contract of an environment, from the command line."""

import json

import pytest

from retrograde.cli.doctor_environment import check_environment
from retrograde.environments.conformance import RULES


def test_a_table_of_all_rules(capsys):
    assert check_environment("lake", ["--environment.slip", "--tasks", "4"])() == 0
    out = capsys.readouterr().out
    assert all(rule in out for rule in RULES)
    assert "the contract of lake" in out
    assert '"slip": true' in out
    assert "chance in" in out
    assert "nothing is broken; 16 rules were seen kept" in out


def test_one_json_object_and_nothing_else(capsys):
    assert check_environment("hop", ["--json", "--seed", "3"])() == 0
    found = json.loads(capsys.readouterr().out)
    assert found["environment"] == "hop"
    assert [finding["rule"] for finding in found["findings"]] == list(RULES)
    assert {"verdict": "kept", "rule": "fork"}.items() <= found["findings"][12].items()


@pytest.mark.parametrize("words", [[], ["--threaded"]])
def test_a_broken_rule_is_named_and_is_a_failure(capsys, words):
    assert check_environment("tests.environments.bells:Lying", words)() == 1
    out = capsys.readouterr().out
    assert "broken: chance" in out
    assert "fork(seed) has to draw what is still to come from its seed" in " ".join(
        out.replace("│", " ").split()
    )


def test_bad_input_is_refused_before_any_work():
    with pytest.raises(ValueError, match="no environment is named 'hopp'"):
        check_environment("hopp", [])
    with pytest.raises(ValueError, match="--tasks: at least 1 is needed, got 0"):
        check_environment("hop", ["--tasks", "0"])
    with pytest.raises(SystemExit):
        check_environment("hop", ["--environment.hopps", "3"])

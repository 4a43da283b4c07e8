"""Help fits a screen, shows defaults and examples, and names options that exist."""

import inspect
import re

import pytest

from retrograde.algorithms.options import options_of
from retrograde.algorithms.registry import ALGORITHMS
from retrograde.cli.main import COMMANDS
from retrograde.cli.train_help import COLUMNS, LINES
from retrograde.environments.registry import ENVIRONMENTS


@pytest.fixture(autouse=True)
def screen(monkeypatch, place):
    monkeypatch.setenv("COLUMNS", str(COLUMNS))


def check_fits(text):
    lines = text.rstrip("\n").splitlines()
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= COLUMNS
    assert "example" in text


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_each_command_fits_a_screen(retrograde, command):
    said = retrograde(command, "--help")
    assert (said.code, said.err) == (0, "")
    check_fits(said.out)
    assert f"retrograde {command}" in said.out[said.out.index("example") :]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_so_does_that_of_every_algorithm(retrograde, algorithm):
    check_fits(retrograde("train", "--algorithm", algorithm, "--help").out)


@pytest.mark.parametrize("environment", [name for name in ENVIRONMENTS if name != "bfcl"])
def test_and_of_every_environment(retrograde, environment):
    said = retrograde("train", "--algorithm", "at2po", "--environment", environment, "--help")
    if said.code == 0:  # what takes a name after a colon is refused without one
        check_fits(said.out)


def test_options_that_are_used_most_are_there_with_their_defaults(retrograde):
    text = retrograde("train", "--help").out
    for name, default in options_of(ALGORITHMS["rtpo"]).items():
        dashed = f"--algorithm.{name.replace('_', '-')}"
        shown = r"\w+" if default is None else re.escape(str(default))
        assert re.search(rf"^  {dashed} {shown} +\w", text, re.MULTILINE), dashed
    for option in ("--steps", "--prompts", "--seed 0", "--out DIR", "--resume", "--json"):
        assert f"  {option}" in text
    assert "--help-all" in text


def test_what_does_not_fit_is_counted(retrograde):
    text = retrograde("train", "--algorithm", "at2po", "--environment", "geo_search", "--help").out
    left = sum(map(int, re.findall(r"\.\.\. and (\d+) more", text)))
    shown = len(re.findall(r"^  --(?:algorithm|environment)\.", text, re.MULTILINE))
    options = len(inspect.signature(ENVIRONMENTS["geo_search"]).parameters)
    assert left > 0
    assert shown + left == options + len(options_of(ALGORITHMS["at2po"]))


def test_all_of_it_is_a_word_away(retrograde):
    text = retrograde("train", "--help-all").out
    for option in ("--algorithm.siblings", "--turn-seconds", "--model.lora.targets", "--json"):
        assert option in text

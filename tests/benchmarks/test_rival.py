"""Rivals: started, told, read, and what happens when they are absent or fail."""

import sys
from pathlib import Path

import pytest
from benchmarks.rival import (
    TRL,
    VLLM,
    MissingRivalError,
    Place,
    Rival,
    RivalFailedError,
    alternating,
    each,
)

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def place(tmp_path):
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    (tmp_path / ".installed").touch()
    return Place("Echo", str(tmp_path), "tests.benchmarks.echo_rival", "make setup-echo")


def test_what_a_rival_answers_is_read_whatever_its_libraries_print(place, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "ours")
    with Rival(place, {"model": "m"}, threads=2) as rival:
        assert rival.ready == {"settings": {"model": "m"}, "threads": "2", "path": None}
        assert rival.asked({"seconds": 1.5}) == {"seconds": 1.5}
        assert rival.asked({"seconds": 2.5}) == {"seconds": 2.5}


def test_a_rival_that_fails_is_quoted(place):
    with (
        Rival(place, {}) as rival,
        pytest.raises(RivalFailedError, match=r"(?s)Echo ended.*the last words"),
    ):
        rival.asked({"fail": True})


def test_an_absent_rival_names_the_command_that_installs_it(tmp_path):
    place = Place("Echo", str(tmp_path / "none"), "nothing", "make setup-echo")
    with pytest.raises(MissingRivalError, match="Echo is left out: `make setup-echo` installs"):
        Rival(place, {})


@pytest.mark.parametrize("place", [TRL, VLLM], ids=lambda place: place.name)
def test_a_rival_has_a_script_that_parses_a_pinned_list_and_a_command(place):
    script = ROOT / f"{place.module.replace('.', '/')}.py"
    compile(script.read_text(), script, "exec")
    name = place.environment.removeprefix(".venv-")
    pins = (ROOT / "requirements" / f"{name}.txt").read_text().splitlines()
    assert all("==" in line for line in pins if not line.startswith("#"))
    assert f"\n{place.made_by.removeprefix('make ')}:" in (ROOT / "Makefile").read_text()


def test_cases_take_turns_and_their_first_call_does_not_count():
    order = []

    def case(name, seconds):
        def call():
            order.append(name)
            return next(seconds)

        return call

    took = alternating({"a": case("a", iter([9, 1, 2])), "b": case("b", iter([8, 3, 4]))}, 2)
    assert took == {"a": [1, 2], "b": [3, 4]}
    assert order == ["a", "b"] * 3


def test_amounts_in_a_second_are_those_of_the_median():
    # 100 tokens in 2 s (the median of 1, 2 and 9), and in 0.5 s.
    assert each({"a": [1, 9, 2], "b": [0.5]}, 100) == "a 50, b 200"

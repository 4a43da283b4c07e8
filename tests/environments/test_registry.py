"""Looking environments up by name."""

import dataclasses
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from retrograde.cli.settings import parse_environment
from retrograde.data.offer import Offer
from retrograde.environments import registry
from retrograde.environments.extras import COMMANDS, MissingExtraError
from retrograde.environments.hop import Hop
from retrograde.environments.registry import ENVIRONMENTS, environment_named

EMBEDDED = ("hop", "lake", "market")
"""Worlds of the embedded policy, whose words the tokenizer that ships with the package knows."""


def test_names_are_what_the_environments_call_themselves():
    assert {name: ENVIRONMENTS[name]().name for name in EMBEDDED} == {
        "hop": "hop",
        "lake": "lake",
        "market": "market",
    }
    assert environment_named("hop") is Hop


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(ValueError, match="no environment is named 'hopp'; did you mean hop"):
        environment_named("hopp")
    with pytest.raises(ValueError, match=r"'zzz'; known: .*hop.* lake.* market"):
        environment_named("zzz")


def test_an_environment_of_ones_own_is_named_by_file_or_module(tmp_path):
    (tmp_path / "own_world.py").write_text(
        "from retrograde.environments.hop import Hop as Mine\nready = Mine(hops=2)\n"
        "from retrograde.environments.plain import PlainEnvironment\n"
        "class Bare(PlainEnvironment):\n    name = 'bare'\n"
    )
    assert environment_named(f"{tmp_path}/own_world.py:Mine") is Hop
    assert environment_named(f"{tmp_path}/own_world.py:ready")() == Hop(hops=2)
    assert environment_named("retrograde.environments.hop:Hop") is Hop
    bare = f"{tmp_path}/own_world.py:Bare"
    assert parse_environment(bare, [], "retrograde evaluate").name == "bare"
    for name, problem in {
        f"{tmp_path}/own_world.py:Yours": "there is no 'Yours'",
        f"{tmp_path}/none.py:Mine": "there is no file",
        "no.such.module:Mine": "'no.such.module' could not be imported",
        "hop:3": "environment 'hop' takes nothing behind a colon",
    }.items():
        with pytest.raises(ValueError, match=problem):
            environment_named(name)


def test_the_registry_is_read_only():
    with pytest.raises(TypeError):
        ENVIRONMENTS["mine"] = Hop


@pytest.mark.parametrize("make", [ENVIRONMENTS[name] for name in EMBEDDED], ids=EMBEDDED)
def test_an_environment_is_plain_data(make):
    environment = make()
    assert make(**dataclasses.asdict(environment)) == environment
    with pytest.raises(dataclasses.FrozenInstanceError):
        environment.context = "full"


@pytest.mark.parametrize("make", [ENVIRONMENTS[name] for name in EMBEDDED], ids=EMBEDDED)
async def test_an_environment_keeps_to_what_it_offers(make):
    environment = make()
    for i in range(20):
        task, said = environment.task("train", i), []
        episode = await environment.open(task, i)
        while not said or said[-1].end is None:
            said.append(await episode.act(episode.demonstrate(100 * i + len(said))))
        await episode.close()
        scores, earned = [o.score for o in said], sum(o.reward for o in said)
        assert (Offer.SCORES in environment.offers) == all(s is not None for s in scores)
        if Offer.TURN_REWARDS not in environment.offers:
            assert not any(o.reward for o in said[:-1])
            assert (scores[-1] == 1.0) == (earned >= environment.success_return)
        assert all(score < 1.0 for score in scores[:-1])
        if Offer.GOLD in environment.offers:
            assert environment.gold(task)
        else:
            with pytest.raises(LookupError):
                environment.gold(task)


def test_looking_up_loads_no_gymnasium():
    code = "import sys, retrograde.environments.registry; sys.exit('gymnasium' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch):
    needs = {"hop": (("json", "no_such_module"), "search"), "lake": (("no_such_other",), "bfcl")}
    monkeypatch.setattr(registry, "NEEDS", needs)
    registry.check_installed("market")
    with pytest.raises(MissingExtraError, match=r"^no_such_module is needed and not installed: "):
        registry.check_installed("hop:anything")
    for name, command in {
        "hop": r"pip install 'retrograde\[search\]'$",
        "lake": "pip install --no-deps bfcl-eval$",
    }.items():
        with pytest.raises(MissingExtraError, match=command):
            registry.check_installed(name)


def test_every_extra_that_is_named_exists():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    extras = {*project["optional-dependencies"], *COMMANDS}
    assert {brings for _, brings in registry.NEEDS.values()} <= extras
    assert {*registry.NEEDS, *registry.TAKES} <= {*ENVIRONMENTS}


@pytest.mark.parametrize(
    "name", ["rock_paper_scissors", "limit_holdem", "shop", "gym:Blackjack-v1"]
)
def test_the_settings_of_games_and_worlds_are_what_can_be_written_down(name):
    make = environment_named(name)
    settings = json.loads(json.dumps(dataclasses.asdict(make())))
    assert not {"name", "offers", "vocabulary"} & settings.keys()
    assert make(**{key: value for key, value in settings.items() if value is not None}) == make()

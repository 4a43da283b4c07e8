"""Looking environments up by name."""

import dataclasses
import subprocess
import sys

import pytest

from retrograde.environments.hop import Hop
from retrograde.environments.registry import ENVIRONMENTS, environment_named


def test_names_are_what_the_environments_call_themselves():
    assert {name: make().name for name, make in ENVIRONMENTS.items()} == {
        "hop": "hop",
        "lake": "lake",
    }
    assert environment_named("hop") is Hop


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(ValueError, match="no environment is named 'hopp'; did you mean hop"):
        environment_named("hopp")
    with pytest.raises(ValueError, match="'zzz'; known: hop, lake"):
        environment_named("zzz")


def test_the_registry_is_read_only():
    with pytest.raises(TypeError):
        ENVIRONMENTS["mine"] = Hop


@pytest.mark.parametrize("make", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_an_environment_is_plain_data(make):
    environment = make()
    assert make(**dataclasses.asdict(environment)) == environment
    with pytest.raises(dataclasses.FrozenInstanceError):
        environment.context = "full"


def test_looking_up_loads_no_gymnasium():
    code = "import sys, retrograde.environments.registry; sys.exit('gymnasium' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

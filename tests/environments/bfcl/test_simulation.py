"""BFCL's simulators, and what may be called on them."""

import decimal
import json
import random

import mpmath
import pytest
from bfcl_eval.eval_checker.multi_turn_eval.func_source_code import long_context

from retrograde.environments.bfcl.case import MODULES, STORIES, Case
from retrograde.environments.bfcl.reading import Call
from retrograde.environments.bfcl.simulation import Simulation, _signatures

FILES = Case.told("base", 3)
SUMS = next(case for n in range(STORIES) if "MathAPI" in (case := Case.told("base", n)).classes)


def one_with(name, category="base"):
    return next(case for n in range(STORIES) if name in (case := Case.told(category, n)).classes)


def test_a_call_is_done_and_told():
    simulation = Simulation(FILES)
    assert simulation.call(Call("mkdir", {"dir_name": "new"})).event is None
    told = simulation.call(Call("ls", {}))
    assert json.loads(told.text) == {"current_directory_content": ["projects", "new"]}


@pytest.mark.parametrize(
    "name",
    ["_load_scenario", "__init__", "__class__", "_current_dir", "root", "post_tweet", "eval", ""],
)
def test_what_is_private_or_of_no_simulator_here_cannot_be_called(name):
    result = Simulation(FILES).call(Call(name, {}))
    assert result.event == "call/unknown"
    assert name in result.text


@pytest.mark.parametrize("given", [{}, {"folder": "a", "force": True}, {"directory": "a"}])
def test_arguments_that_a_function_does_not_take_are_told(given):
    result = Simulation(FILES).call(Call("cd", given))
    assert result.event == "call/error"
    assert result.text.startswith("Error during execution: cd: ")


def test_what_a_simulator_refuses_counts_as_an_error():
    assert Simulation(FILES).call(Call("cd", {"folder": "nowhere"})).event == "call/error"


def test_arguments_are_named_by_their_place():
    named = Simulation(SUMS).named(Call("add", {}, (1, 2)))
    assert named == Call("add", {"a": 1, "b": 2})
    with pytest.raises(LookupError, match="no function 'root'"):
        Simulation(SUMS).named(Call("root", {}))


def test_a_sum_without_end_is_not_done():
    simulation = Simulation(SUMS)
    for call in (
        Call("power", {"base": 9, "exponent": 9**9}),
        Call("square_root", {"number": 2, "precision": 10**9}),
        Call("logarithm", {"value": 2, "base": 10, "precision": 10**9}),
        Call("round_number", {"number": 7, "decimal_places": -(10**9)}),
    ):
        result = simulation.call(call)
        assert result.event == "call/error"
        assert "is computed, got" in result.text
    assert simulation.call(Call("power", {"base": 2, "exponent": 10})).text == '{"result": 1024}'


def test_the_precision_of_a_sum_does_not_outlive_it():
    before = mpmath.mp.dps, decimal.getcontext().prec
    simulation = Simulation(SUMS)
    # ln 20 / ln 10 = 1.30103, of which no more than two digits are sure to be right.
    log = simulation.call(Call("logarithm", {"value": 20, "base": 10, "precision": 2}))
    assert log.text == "{'result': mpf('1.3027')}"
    simulation.call(Call("square_root", {"number": 2, "precision": 5}))
    assert (mpmath.mp.dps, decimal.getcontext().prec) == before


def test_simulators_share_nothing_with_the_tables_of_their_module():
    simulation = Simulation(one_with("TravelAPI", "long_context"))
    cards = simulation.state()["TravelAPI"]["credit_card_list"]
    shared = [name for name in long_context.CREDIT_CARD_EXTENSION if name in cards]
    assert shared
    for name in shared:
        cards[name]["balance"] = -1
        assert long_context.CREDIT_CARD_EXTENSION[name]["balance"] != -1


def test_a_copy_is_independent_and_draws_the_same_chance():
    simulation = Simulation(one_with("VehicleControlAPI"))
    other = simulation.copy()
    speeds = [simulation.call(Call("get_current_speed", {})).text for _ in range(3)]
    assert len(set(speeds)) == 3
    assert [other.call(Call("get_current_speed", {})).text for _ in range(3)] == speeds
    files = Simulation(FILES)
    copied = files.copy()
    copied.call(Call("mkdir", {"dir_name": "new"}))
    assert "new" not in files.call(Call("ls", {})).text
    assert files.state() != copied.state()


RUBBISH = (None, True, -1, 0, 3, 2.5, "", "a", "..", "/", "RMY", "1", [], [1, "a"], {}, {"a": 1})


@pytest.mark.parametrize("name", MODULES)
def test_no_arguments_raise(name):
    chance = random.Random(0)
    simulation = Simulation(one_with(name))
    for _ in range(15):
        for function, signature in _signatures(name).items():
            arguments = {key: chance.choice(RUBBISH) for key in signature.parameters}
            assert isinstance(simulation.call(Call(function, arguments)).text, str)


def test_a_folder_copied_into_itself_is_only_an_error():
    simulation = Simulation(FILES)
    for _ in range(2):
        simulation.call(Call("cp", {"source": "projects", "destination": "projects"}))
    assert simulation.call(Call("find", {"path": ".", "name": "x"})).event == "call/error"
    simulation.copy()

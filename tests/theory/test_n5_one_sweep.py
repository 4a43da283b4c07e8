"""N5: one sweep of exact greedy steps is optimal from the last turn to the first, and only so."""

import pytest

from .measured import (
    all_at_once,
    best_value,
    many_worlds,
    phases_of_the_plan,
    some_policy,
    swept,
    total_value,
)

WORLDS = many_worlds(1000)
START = some_policy(WORLDS)
BEST = best_value(WORLDS)


def gap(chosen):
    return BEST - total_value(WORLDS, chosen)


@pytest.mark.parametrize("num_turns", [1, 3, 5])
def test_the_plan_goes_from_the_last_turn_to_the_first(num_turns):
    assert phases_of_the_plan(num_turns) == list(reversed(range(num_turns)))


def test_one_sweep_in_the_order_of_the_plan_reaches_the_optimum():
    assert gap(START).min() > 1e-2
    assert gap(swept(WORLDS, START, phases_of_the_plan(3))).abs().max() < 1e-12


def test_one_sweep_forwards_is_one_step_at_all_turns_at_once():
    # What a turn is worth depends on later turns alone, and those have not been updated.
    assert (swept(WORLDS, START, [0, 1, 2]) == all_at_once(WORLDS, START)).all()


def test_one_sweep_forwards_is_mostly_not_optimal():
    missed = gap(all_at_once(WORLDS, START))
    assert float((missed > 1e-9).double().mean()) > 0.9
    assert missed.mean() > 1e-3


@pytest.mark.parametrize("order", [(2, 0, 1), (1, 2, 0)])
def test_other_orders_are_mostly_not_optimal_either(order):
    assert float((gap(swept(WORLDS, START, order)) > 1e-9).double().mean()) > 0.5


def test_as_many_sweeps_as_turns_reach_the_optimum_in_any_order():
    # It is policy iteration: after i steps the last i turns are optimal.
    chosen = START
    shares = []
    for _ in range(3):
        chosen = all_at_once(WORLDS, chosen)
        shares.append(float((gap(chosen) > 1e-9).double().mean()))
    assert shares[0] > shares[1] > shares[2] == 0
    assert gap(chosen).abs().max() < 1e-12

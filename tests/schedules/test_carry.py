"""SeeUPO, arXiv:2602.06554: what earlier turns inherit from the update of later ones."""

import math

import pytest

from retrograde.data.rows import Row
from retrograde.schedules.carry import Carry, carried
from retrograde.schedules.update import Update

FIRST, SECOND = (0, 0, 0, 0), (0, 0, 1, 0)


def row(rollout, turn, *, advantage=1.0, tokens=2, logp=-1.0, group=0):
    return Row((1,), (2,) * tokens, (logp,) * tokens, advantage, turn, group, rollout)


def test_the_paper_multiplies_the_ratios_of_all_tokens():
    # Two tokens, each ln 2 likelier than -1: 2 * 2 = 4. Two, likelier by ln 3 and less by ln 2:
    # 3 / 2.
    rows = [row(FIRST, 1), row(SECOND, 1)]
    up, half = -1 + math.log(2), -1 - math.log(2)
    factors = Carry().after({}, rows, [[up, up], [-1 + math.log(3), half]])
    assert factors == pytest.approx({FIRST: 4.0, SECOND: 1.5})
    # And those of the turn before: 4 / 4 = 1, and 1.5 of a rollout that has no such turn.
    factors = Carry().after(factors, [row(FIRST, 0)], [[half, half]])
    assert factors == pytest.approx({FIRST: 1.0, SECOND: 1.5})


def test_the_code_takes_the_geometric_mean_and_bounds_it_twice():
    carry = Carry("code")
    # sqrt(1.1 * 1.3) = 1.19583 is within 1.2. The paper's product would be 1.43.
    rows = [row(FIRST, 2)]
    once = carry.after({}, rows, [[-1 + math.log(1.1), -1 + math.log(1.3)]])
    assert once == pytest.approx({FIRST: math.sqrt(1.43)})
    # 2 and 2 have the mean 2, bounded 1.2; 1.19583 * 1.2 = 1.435, bounded 1.2 again.
    twice = carry.after(once, rows, [[-1 + math.log(2)] * 2])
    assert twice == pytest.approx({FIRST: 1.2})
    # 1/4 is bounded .8; 1.2 * .8 = .96 is not. Unbounded it would be 1.2 / 4 = .3.
    thrice = carry.after(twice, rows, [[-1 - math.log(4)] * 2])
    assert thrice == pytest.approx({FIRST: 0.96})
    # .96 * .8 = .768, bounded .8.
    assert carry.after(thrice, rows, [[-2.0] * 2]) == pytest.approx({FIRST: 0.8})


def test_the_factors_before_are_left_as_they_were():
    before = {FIRST: 2.0}
    Carry().after(before, [row(FIRST, 1)], [[-2.0, -2.0]])
    assert before == {FIRST: 2.0}


def test_what_did_not_move_changes_nothing():
    assert Carry().after({}, [row(FIRST, 1)], [[-1.0, -1.0]]) == {FIRST: 1.0}
    assert Carry("code").after({}, [row(FIRST, 1)], [[-1.0, -1.0]]) == {FIRST: 1.0}


def test_advantages_are_multiplied_by_the_factor_of_their_rollout():
    rows = [row(FIRST, 0, advantage=0.5), row(SECOND, 0, advantage=-2.0)]
    assert [r.advantage for r in carried(rows, {FIRST: 4.0})] == [2.0, -2.0]
    of_tokens = row(FIRST, 0, advantage=(0.5, -1.0))
    assert carried([of_tokens], {FIRST: 4.0})[0].advantage == (2.0, -4.0)
    # Nothing else of a row changes: the ratio of the turn itself starts at 1 all the same.
    assert carried(rows, {FIRST: 4.0})[0].behaviour_logp == rows[0].behaviour_logp


def test_stages_are_the_turns_last_first():
    rows = [row(FIRST, 0), row(FIRST, 1), row(SECOND, 0), row(SECOND, 1), row(SECOND, 2)]
    first, then = Update(last_turn_first=True), Update()
    assert [[(r.turn, r.rollout) for r in stage] for stage in first.stages(rows)] == [
        [(2, SECOND)],
        [(1, FIRST), (1, SECOND)],
        [(0, FIRST), (0, SECOND)],
    ]
    assert then.stages(rows) == [rows]


def test_a_carry_without_an_order_is_refused():
    with pytest.raises(ValueError, match="carry: last_turn_first is needed"):
        Update(carry=Carry())

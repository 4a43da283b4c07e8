"""N8: a turn that gives no gradient stands still under per-turn tables, not under one network."""

import pytest

from .mdp import random_world, shared_table, turn_tables
from .measured import moved

WORLD = random_world(61)


@pytest.mark.parametrize("turn", [0, 1, 2])
def test_under_tables_a_phase_moves_its_own_turn_alone(turn):
    distance = moved(WORLD, turn_tables(WORLD.shape), turn)
    assert distance[turn] > 1e-3
    assert all(far == 0 for other, far in enumerate(distance) if other != turn)


@pytest.mark.parametrize("turn", [0, 1, 2])
def test_under_shared_weights_a_phase_moves_every_turn(turn):
    distance = moved(WORLD, shared_table(WORLD.shape), turn)
    assert min(distance) > 1e-3
    # This policy cannot tell turns apart, so all of them move equally far.
    assert distance == pytest.approx([distance[turn]] * 3)

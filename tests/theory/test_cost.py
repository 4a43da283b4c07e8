"""What a sweep costs: turns that are generated, and turns that are trained."""

import pytest

from .measured import cost


@pytest.mark.parametrize("num_turns", [1, 2, 3, 6])
@pytest.mark.parametrize("size", [2, 4])
def test_turns_of_a_sweep(num_turns, size):
    # A trunk of K turns, and at turn k the siblings with K - k turns each.
    generated, trained = cost(num_turns, size)
    assert generated == num_turns + size * num_turns * (num_turns + 1) // 2
    assert trained == size * num_turns
    expected = 2 * size / (size * (num_turns + 1) + 2)
    assert trained / generated == pytest.approx(expected)


def test_the_papers_settings():
    # G = 3: K = 3 gives 6 of 15 turns, K = 6 gives 12 of 48.
    assert cost(3, 2) == (15, 6)
    assert cost(6, 2) == (48, 12)

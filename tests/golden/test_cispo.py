"""CISPO, arXiv:2506.13585, equations 4 and 5: the bounded ratio as a weight, worked by hand."""

import math

import pytest

from retrograde.algorithms.cispo import cispo

from .chains import advantages, gradient, rollout

GROUP = rollout(1.0, tokens=3), rollout(0.0, tokens=3)
A = 0.5 / (math.sqrt(0.5) + 1e-6)
RATIOS = [0.01, 1.0, 10.0, 0.01, 3.0, 10.0]


def test_advantages_are_grpos():
    assert advantages(cispo(), *GROUP) == pytest.approx([A, -A])


@pytest.mark.parametrize(
    ("options", "weights"),
    [
        # The paper's: no bound below, 1 + 4 above.
        ({}, [0.01, 1, 5, 0.01, 3, 5]),
        # TRL's 5 is a bound of the ratio itself.
        ({"clip_high": 5.0, "bound": "absolute"}, [0.01, 1, 5, 0.01, 3, 5]),
        ({"clip_high": 2.0, "bound": "absolute"}, [0.01, 1, 2, 0.01, 2, 2]),
        # verl's: [.8, 1.2].
        ({"clip_low": 0.2, "clip_high": 0.2}, [0.8, 1, 1.2, 0.8, 1.2, 1.2]),
    ],
)
def test_every_token_keeps_a_gradient(options, weights):
    # weight A / 6 tokens: PPO's clip would leave three of them without.
    signs = [-1, -1, -1, 1, 1, 1]
    expected = [sign * A * weight / 6 for sign, weight in zip(signs, weights, strict=True)]
    found = gradient(cispo(**options), GROUP, ratios=RATIOS)
    assert found == pytest.approx(expected, rel=1e-5)


def test_equal_arguments_give_equal_algorithms():
    assert cispo() == cispo(bound="relative") == cispo(clip_high=5.0, bound="absolute")
    with pytest.raises(ValueError, match="high above 0"):
        cispo(clip_high=1.0, bound="absolute")

"""The value loss, worked by hand."""

from dataclasses import replace

import pytest
import torch

from retrograde.data.rows import Row
from retrograde.losses.policy import Level
from retrograde.losses.value import ValueLoss

# Two tokens and one token. Values now 1, .25 | 1; then all 0; bound .5.
LONG = Row((1,), (2, 3), (-1.0,) * 2, 0.0, 0, 0, (0, 0, 0, 0), target=(2.0, 2.0), values=(0.0, 0.0))
SHORT = Row((1,), (2,), (-1.0,), 0.0, 0, 0, (0, 0, 1, 0), target=(-1.0,), values=(0.0,))
NOW = torch.tensor([1.0, 0.25, 1.0], dtype=torch.float64)


def test_the_mean_over_tokens():
    # 1.125, 1.53125 and 2, over 3; the first is clipped.
    value, seen = ValueLoss()(NOW, [LONG, SHORT], 3)
    assert float(value) == pytest.approx(4.65625 / 3)
    assert seen == pytest.approx({"value/loss": 4.65625 / 3, "value/clip_ratio": 1 / 3})


def test_the_mean_over_turns():
    # A turn is one state, however many tokens it has: 1.125 and 2, over 2.
    turns = ValueLoss(Level.TURN)
    long = replace(LONG, target=(2.0,), values=(0.0,))
    value, _ = turns(torch.tensor([1.0, 1.0], dtype=torch.float64), [long, SHORT], 2)
    assert float(value) == pytest.approx(3.125 / 2)


def test_parts_add_up_to_the_whole():
    loss = ValueLoss()
    whole, seen = loss(NOW, [LONG, SHORT], 3)
    parts = loss(NOW[:2], [LONG], 3), loss(NOW[2:], [SHORT], 3)
    assert sum(float(value) for value, _ in parts) == pytest.approx(float(whole))
    assert sum(s["value/clip_ratio"] for _, s in parts) == pytest.approx(seen["value/clip_ratio"])


def test_values_of_another_level_are_refused():
    with pytest.raises(ValueError, match="2 tokens needs 1 values and targets for a critic of t"):
        ValueLoss(Level.TURN)(NOW, [LONG, SHORT], 2)
    with pytest.raises(ValueError, match="got 0 and 2"):
        ValueLoss()(NOW, [replace(LONG, values=()), SHORT], 3)


def test_without_a_bound_nothing_is_clipped():
    # Half of 1, 3.0625 and 4, over 3.
    value, seen = ValueLoss(clip=None)(NOW, [LONG, SHORT], 3)
    assert float(value) == pytest.approx(8.0625 / 6)
    assert seen["value/clip_ratio"] == 0


def test_figures_tell_large_targets_apart():
    # In float32 both targets would be 2^25, and there would be nothing to explain.
    large = 2.0**25
    rows = [replace(SHORT, target=(large,)), replace(SHORT, target=(large + 1,), values=(1.0,))]
    assert ValueLoss().figures(rows) == {"value/explained_variance": 1.0}


def test_figures_are_of_the_recorded_values():
    # Targets 2, 2, -1 and values 0: a constant explains nothing.
    assert ValueLoss().figures([LONG, SHORT]) == {"value/explained_variance": pytest.approx(0)}
    right = [replace(LONG, values=LONG.target), replace(SHORT, values=SHORT.target)]
    assert ValueLoss().figures(right) == {"value/explained_variance": 1.0}
    assert ValueLoss().figures([LONG]) == {}


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"level": Level.ROLLOUT}, "token or turn"),
        ({"clip": 0.0}, "value clip: above 0"),
        ({"coefficient": 0.0}, "value coefficient"),
        ({"speed": float("inf")}, "value speed"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong, match):
    with pytest.raises(ValueError, match=match):
        ValueLoss(**wrong)

"""SeeUPO, arXiv:2602.06554: credit by hand. Its order: `tests/trainer/test_last_turn_first.py`."""

import math

import pytest
from tests.golden.told import chain, judged

from retrograde.algorithms.seeupo import seeupo
from retrograde.credit.batch_scale import BatchScale
from retrograde.data.rows import rows_of
from retrograde.data.tree import End, Group
from retrograde.losses.policy import Level, Mean
from retrograde.schedules.carry import Carry


def test_return_minus_mean_then_over_the_update():
    # Group a: 1, 0, 0 (three turns, one, one): 2/3, -1/3, -1/3. Group b: 1 and 1: 0 and 0.
    # Squares 4/9 + 1/9 + 1/9 = 2/3 over 4 rollouts more than none: 1/6, root .40825.
    # Groups are not divided by their own deviations: GRPO's would give 1.1547 and -.57735.
    algorithm = seeupo()
    groups = [
        Group("a", (chain(0.0, 0.0, 1.0), chain(0.0), chain(0.0))),
        Group("b", (chain(1.0), chain(0.0, 1.0))),
    ]
    rows = rows_of(groups, [algorithm.credit(group, 0) for group in groups])
    spread = math.sqrt(1 / 6) + 1e-6
    high, low = 2 / 3 / spread, -1 / 3 / spread
    found = [row.advantage for row in algorithm.normalise(rows)]
    assert found == pytest.approx([high, high, high, low, low, 0, 0, 0])
    assert found[5:] == [0.0, 0.0, 0.0]


def test_a_failed_rollout_takes_no_part():
    failed = chain(0.0, end=End.FAILED)
    assert judged(seeupo().credit, chain(1.0), chain(0.0), failed) == [[0.5], [-0.5], [None]]


def test_paper_and_code():
    paper, code = seeupo(), seeupo(form="code", kl=0.002)
    assert paper == seeupo()
    assert (paper.normalise, code.normalise) == (BatchScale(), BatchScale(bound=3.0))
    assert (paper.update.carry, code.update.carry) == (Carry("paper"), Carry("code", 0.2, 0.2))
    assert paper.update.last_turn_first
    assert not paper.update.every_round
    assert (paper.loss.ratio, paper.loss.mean) == (Level.TURN, Mean.TURN)
    assert (paper.loss.kl, code.loss.kl) == (0.0, 0.002)
    assert not paper.grow.forks
    with pytest.raises(ValueError, match=r"rollouts: at least 2 .* got 1"):
        seeupo(rollouts=1)

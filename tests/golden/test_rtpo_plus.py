"""RTPO with replay: which rows a phase trains on, by hand."""

from collections import deque
from dataclasses import replace

import pytest
import torch

from retrograde.algorithms.rtpo import rtpo
from retrograde.algorithms.rtpo_plus import rtpo_plus
from retrograde.data.batch import ActionTokens
from retrograde.data.rows import Row
from retrograde.trainer.learning import _with_recent
from retrograde.trainer.run import State


def row(turn, version, advantage, logp=-1.0):
    return Row((7,), (8,), (logp,), advantage, turn, 0, (version, 0, 0, 0))


def test_a_phase_trains_on_its_own_rows_and_on_those_of_the_sweep_before_it():
    # Three turns, so a sweep has three phases: turns 2, 1, 0. The fourth phase, turn 2 of the
    # next iteration, replays turns 0 and 1 and no longer turn 2 of the iteration before.
    state = State(recent=deque())
    phases = [[row(turn, version, 1.0)] for version, turn in enumerate((2, 1, 0, 2))]
    trained = [[r.turn for r in _with_recent(rows, state, 3)] for rows in phases]
    assert trained == [[2], [2, 1], [2, 1, 0], [1, 0, 2]]


def test_replayed_rows_are_weighed_by_how_they_were_sampled():
    # A row sampled with probability e^-1 by version 0 and with e^-.9 by the policy of now has the
    # ratio e^.1 = 1.10517; one sampled just now has 1. Mean over turns: each weighs 1/2, so the
    # loss is -(1.10517 * 1 + 1 * (-1)) / 2 = -.052585.
    tokens = ActionTokens.of([row(2, 0, 1.0, -1.0), row(1, 1, -1.0, -0.9)])
    loss = rtpo_plus().loss
    now = torch.tensor([-0.9, -0.9])
    assert float(loss(now, tokens, loss.weights(tokens))) == pytest.approx(-0.052585, abs=1e-6)


def test_it_is_rtpo_but_for_the_replay():
    assert rtpo_plus().update.replay
    assert not rtpo().update.replay
    assert replace(rtpo_plus(), update=rtpo().update) == rtpo()
    assert rtpo_plus(siblings=8) == rtpo_plus()
    with pytest.raises(ValueError, match="siblings"):
        rtpo_plus(siblings=1)

"""Precision and refusals of a critic's credit; numbers by hand are in `golden/test_ppo.py`."""

from dataclasses import replace

import pytest

from retrograde.credit.gae import GAE
from retrograde.data.evidence import Evidence
from retrograde.data.tree import ROOT_PARENT, End, Group, Tree, Turn

LAST = Turn(ROOT_PARENT, 0, (1,), (1,), (2, 3), (-0.5, -0.5), 0, 0, 1.0, End.FINISHED)
TREE = Tree((LAST,))


def test_large_values_keep_small_differences():
    # 2^25 + 1 is no float32: there the difference of the two values would be 0 or 4.
    large = 2.0**25
    said = Evidence(values={(0, 0): (large, large + 1)})
    (judged,) = GAE(lam=0.0)(Group("t", (TREE,)), 0, said)
    assert judged.advantage_V == ((1.0, 1.0 - (large + 1)),)
    assert judged.target_V == ((large + 1, 1.0),)


def test_small_rewards_keep_their_digits():
    tree = Tree((replace(LAST, reward=0.1),))
    (judged,) = GAE()(Group("t", (tree,)), 0, Evidence(values={(0, 0): (0.0, 0.0)}))
    assert judged.advantage_V == ((0.1, 0.1),)


def test_a_turn_without_values_is_refused():
    with pytest.raises(ValueError, match="turn 0 of tree 0 needs 2 values of a critic, got 0"):
        GAE()(Group("t", (TREE,)), 0)


def test_a_failed_rollout_has_no_advantage():
    failed = Tree((replace(LAST, reward=0.0, end=End.FAILED),))
    (judged,) = GAE()(Group("t", (failed,)), 0)
    assert judged.advantage_V == (0.0,)
    assert judged.trains_V == (False,)

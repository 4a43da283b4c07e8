"""What an environment says after an action."""

import math

import pytest

from retrograde.environments.protocol import Observation


def test_a_score_is_a_share():
    assert [Observation((), score=s).score for s in (None, 0.0, 0.5, 1.0)] == [None, 0.0, 0.5, 1.0]
    for score in (-0.01, 1.01, math.nan, math.inf):
        with pytest.raises(ValueError, match=f"score: a number in .* is needed, got {score}"):
            Observation((), score=score)


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), -float("inf")])
def test_a_reward_that_is_no_number_is_refused(reward):
    with pytest.raises(ValueError, match="reward: a finite number is needed"):
        Observation((), reward=reward)

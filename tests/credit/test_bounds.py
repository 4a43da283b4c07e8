"""What options of credits, losses and updates may be: the last value allowed, the first refused."""

import math

import pytest

from retrograde.credit.anchor import AnchorRelative
from retrograde.credit.batch_scale import BatchScale
from retrograde.credit.brevity import Brevity
from retrograde.credit.dynamic_sampling import DynamicSampling
from retrograde.credit.first_success import FirstSuccess
from retrograde.credit.gae import GAE
from retrograde.credit.information_gain import InformationGain
from retrograde.credit.next_reward import NextReward
from retrograde.credit.tree_relative import TreeRelative
from retrograde.credit.turn_score import TurnScore
from retrograde.losses.policy import PolicyLoss
from retrograde.losses.value import ValueLoss
from retrograde.schedules.update import Update

TINY = 1e-9
SHARE = (0.0, 1.0), (-TINY, 1 + TINY)
COUNT = (1,), (0,)
ABOVE_0 = (TINY,), (0.0,)
BOUNDS = [
    # what, which option, the last values allowed, the first refused
    (AnchorRelative, "omega", (0.0,), (-TINY, math.inf)),
    (AnchorRelative, "gamma", *SHARE),
    (AnchorRelative, "similarity", (TINY, 1.0, None), (0.0, 1 + TINY)),
    (BatchScale, "bound", (TINY, None), (0.0,)),
    (Brevity, "reward", (TINY,), (0.0, math.inf)),
    (DynamicSampling, "factor", (0.0,), (-TINY,)),
    (DynamicSampling, "buffer", (1, 20480), (0, 20481)),
    (FirstSuccess, "gamma", *SHARE),
    (GAE, "gamma", *SHARE),
    (GAE, "lam", *SHARE),
    (InformationGain, "gamma", *SHARE),
    (InformationGain, "clip_scale", (0.0, 1 - TINY), (-TINY, 1.0)),
    (NextReward, "delay", (0,), (-1,)),
    (TreeRelative, "keep", *COUNT),
    *((TurnScore, name, (0.0,), (-TINY, math.inf)) for name in ("progress", "preserve")),
    *((TurnScore, name, (0.0,), (-TINY, math.inf)) for name in ("regression", "hindsight")),
    (TurnScore, "counterfactual", (0.0,), (-TINY, math.inf)),
    (TurnScore, "threshold", (TINY, 1.0), (0.0, 1 + TINY)),
    (TurnScore, "gamma", (TINY, 1.0), (0.0, 1 + TINY)),
    (PolicyLoss, "clip_low", (TINY, 1.0), (0.0, 1 + TINY)),
    (PolicyLoss, "clip_high", *ABOVE_0),
    (PolicyLoss, "dual_clip", (1 + TINY, None), (1.0,)),
    (PolicyLoss, "length", (TINY,), (0.0, math.inf)),
    (PolicyLoss, "kl", (0.0,), (-TINY, math.inf)),
    (ValueLoss, "clip", (TINY, None), (0.0,)),
    (ValueLoss, "coefficient", (TINY,), (0.0, math.inf)),
    (ValueLoss, "speed", (TINY,), (0.0, math.inf)),
    *((Update, name, *COUNT) for name in ("epochs", "minibatches", "min_signal")),
    (Update, "learning_rate", (TINY, None), (0.0, math.inf)),
    (Update, "warmup_steps", (0,), (-1,)),
    (Update, "max_grad_norm", *ABOVE_0),
]
MESSAGES = {"clip_low": "clip bounds", "clip_high": "clip bounds"}
"""How a message names an option, if not by its name."""


@pytest.mark.parametrize(
    ("made", "option", "allowed", "refused"),
    BOUNDS,
    ids=[f"{made.__name__}-{option}" for made, option, *_ in BOUNDS],
)
def test_an_option_may_be_what_it_says_and_nothing_else(made, option, allowed, refused):
    for value in allowed:
        assert getattr(made(**{option: value}), option) == value
    for value in refused:
        with pytest.raises(ValueError, match=MESSAGES.get(option, option)):
            made(**{option: value})


def test_the_weight_of_answers_may_stay_and_may_not_rise():
    assert Brevity(alpha_initial=0.5, alpha_final=0.5).alpha_final == 0.5
    assert Brevity(alpha_initial=1.0, alpha_final=0.0).alpha_initial == 1.0
    for initial, final in ((0.5, 0.5 + TINY), (1 + TINY, 0.5), (0.5, -TINY)):
        with pytest.raises(ValueError, match="alpha"):
            Brevity(alpha_initial=initial, alpha_final=final)

"""The policy loss, worked by hand. Laws about it are in `tests/properties`."""

import math
from dataclasses import replace

import pytest
import torch

from retrograde.data.batch import ActionTokens
from retrograde.losses.policy import Level, Mean, PolicyLoss, Surrogate

# Three rows; the first two belong to one rollout. Bounds .8 and 1.25.
#
#   row      rollout   advantage   ratios       -min(r A, clip(r) A)
#   0        0           1         1.5  .5      -1.25  -.5
#   1        0          -1         .5             .8
#   2        1           2         1   1.3      -2     -2.5
RATIO_T = torch.tensor([1.5, 0.5, 0.5, 1.0, 1.3], dtype=torch.float64)
TOKENS = ActionTokens(
    behaviour_logp=torch.full((5,), -2.0, dtype=torch.float64),
    advantage=torch.tensor([1.0, 1.0, -1.0, 2.0, 2.0], dtype=torch.float64),
    turn=torch.tensor([0, 0, 1, 2, 2]),
    rollout=torch.tensor([0, 0, 0, 1, 1]),
    num_turns=3,
    num_rollouts=2,
)


def loss_of(tokens=TOKENS, **choices):
    """The loss and its gradient with respect to the log-probabilities."""
    loss = PolicyLoss(clip_low=0.2, clip_high=0.25, **choices)
    logp_T = (tokens.behaviour_logp + RATIO_T.log()).requires_grad_()
    value = loss(logp_T, tokens, loss.weights(tokens))
    value.backward()
    return float(value.detach()), logp_T.grad


@pytest.mark.parametrize(
    ("mean", "expected"),
    [
        # Sum of all: -1.25 - .5 + .8 - 2 - 2.5, over 5.
        (Mean.TOKEN, -1.09),
        # Means of rows: -.875, .8 and -2.25, over 3.
        (Mean.TURN, -0.775),
        # Sums of rows: -1.75, .8 and -4.5, over 3.
        (Mean.SUM, -5.45 / 3),
        # Means of rollouts: -.95 over 3, and -2.25; over 2.
        (Mean.ROLLOUT, (-0.95 / 3 - 2.25) / 2),
        # Means of rows, added up: -.875 + .8, and -2.25; over 2 rollouts.
        (Mean.ROLLOUT_TURNS, (-0.075 - 2.25) / 2),
        # Sums of rollouts: -.95 and -4.5, over 2; the length is 1.
        (Mean.ROLLOUT_SUM, -5.45 / 2),
    ],
)
def test_means(mean, expected):
    assert loss_of(mean=mean)[0] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("mean", "weights"),
    [
        (Mean.TOKEN, [1 / 5] * 5),
        (Mean.TURN, [1 / 6, 1 / 6, 1 / 3, 1 / 6, 1 / 6]),
        (Mean.SUM, [1 / 3] * 5),
        (Mean.ROLLOUT, [1 / 6, 1 / 6, 1 / 6, 1 / 4, 1 / 4]),
        (Mean.ROLLOUT_TURNS, [1 / 4, 1 / 4, 1 / 2, 1 / 4, 1 / 4]),
        (Mean.ROLLOUT_SUM, [1 / 2] * 5),
    ],
)
def test_the_gradient_of_a_token_is_its_weight_times_ratio_times_advantage(mean, weights):
    # Clipped tokens (0, 2 and 4) give none: 1.5 and 1.3 above the bound, .5 below it under a
    # negative advantage. The .5 under a positive one is not clipped.
    _, gradient_T = loss_of(mean=mean)
    expected_T = -torch.tensor([0.0, 0.5 * weights[1], 0.0, 2.0 * weights[3], 0.0])
    torch.testing.assert_close(gradient_T, expected_T.double())


def test_one_ratio_for_a_turn():
    # Row 0: sqrt(.75) = .866025. Row 1: .5, so .8. Row 2: 2 sqrt(1.3) = 2.280351.
    # The mean of -.866025, .8 and -2.280351.
    value, _ = loss_of(ratio=Level.TURN, mean=Mean.TURN)
    assert value == pytest.approx(-0.7821255, abs=1e-6)


def test_one_ratio_for_a_rollout():
    # Rollout 0: .375 ** (1/3) = .721125, which is below .8 but clipped only under the negative
    # advantage: (-.721125 * 2 + .8) / 3 = -.214083. Rollout 1: -2.280351. Their mean.
    value, gradient_T = loss_of(ratio=Level.ROLLOUT, mean=Mean.ROLLOUT)
    assert value == pytest.approx(-1.2472171, abs=1e-6)
    # The gradient flows through the token's own probability.
    expected_T = torch.tensor([-0.7211248 / 6, -0.7211248 / 6, 0.0, -2.280351 / 4, -2.280351 / 4])
    torch.testing.assert_close(gradient_T, expected_T.double(), atol=1e-6, rtol=0)


def test_the_two_bounds_are_two_bounds():
    # A = 1: 1.5 is cut to 1 + high. A = -1: .5 is cut to 1 - low.
    tokens = replace(
        TOKENS,
        advantage=torch.tensor([1.0, 0.0, -1.0, 0.0, 0.0], dtype=torch.float64),
    )
    for low, high, expected in ((0.1, 0.4, -1.4 + 0.9), (0.4, 0.1, -1.1 + 0.6)):
        loss = PolicyLoss(clip_low=low, clip_high=high, mean=Mean.TOKEN)
        logp_T = tokens.behaviour_logp + RATIO_T.log()
        value = float(loss(logp_T, tokens, loss.weights(tokens)))
        assert value == pytest.approx(expected / 5)


def test_the_length_is_a_constant_that_sums_are_divided_by():
    assert loss_of(mean=Mean.ROLLOUT_SUM, length=10.0)[0] == pytest.approx(-5.45 / 20)


# Ratios 1.5, .5 | .5 | 1, 1.3 under 1, 1 | -1 | 2, 2; bounds .8 and 1.25; slopes times 5.
@pytest.mark.parametrize(
    ("choices", "slopes"),
    [
        ({"surrogate": Surrogate.CLIPPED}, [0.0, -0.5, 0.0, -2.0, 0.0]),
        ({"surrogate": Surrogate.CLIPPED_WEIGHT}, [-1.25, -0.8, 0.8, -2.0, -2.5]),
        ({"surrogate": Surrogate.SOFTLY_CLIPPED}, [-1.25, -0.5, 0.0, -2.0, -2.5]),
        ({"surrogate": Surrogate.UNWEIGHTED}, [-1.0, -1.0, 1.0, -2.0, -2.0]),
    ],
)
def test_what_is_done_with_the_ratio(choices, slopes):
    _, gradient_T = loss_of(mean=Mean.TOKEN, **choices)
    torch.testing.assert_close(5 * gradient_T, torch.tensor(slopes, dtype=torch.float64))


def test_a_dual_clip_bounds_what_a_bad_token_costs():
    # Ratio 1.5 and 1.3 under -1: 1.5 is held at 1.4 and gives no gradient, 1.3 is not.
    bad_T = torch.tensor([-1.0, 0.0, 0.0, 0.0, -1.0], dtype=torch.float64)
    tokens = replace(TOKENS, advantage=bad_T)
    value, gradient_T = loss_of(tokens, mean=Mean.TOKEN, dual_clip=1.4)
    assert value == pytest.approx((1.4 + 1.3) / 5)
    expected_T = torch.tensor([0.0, 0.0, 0.0, 0.0, 1.3 / 5], dtype=torch.float64)
    torch.testing.assert_close(gradient_T, expected_T)


def test_clip_bounds_can_be_scaled_row_by_row():
    # Row 0 twice the bounds: 1.5 is at 1 + .5 and stays. Row 1 half of them: .9, not .8.
    # Row 2 not at all: 1.25.
    scale_T = torch.tensor([2.0, 2.0, 0.5, 1.0, 1.0], dtype=torch.float64)
    value, _ = loss_of(replace(TOKENS, clip_scale=scale_T), mean=Mean.TOKEN)
    assert value == pytest.approx((-1.5 - 0.5 + 0.9 - 2.0 - 2.5) / 5)
    logp_T = TOKENS.behaviour_logp + RATIO_T.log()
    loss = PolicyLoss(clip_low=0.2, clip_high=0.26)
    wide = loss.statistics(logp_T, replace(TOKENS, clip_scale=scale_T))
    assert (wide["clipped"], loss.statistics(logp_T, TOKENS)["clipped"]) == (2, 3)


def test_a_penalty_by_hand():
    # d = log pi - log reference is log 2 at the first token, 0 elsewhere:
    # k3 = 1/2 - 1 + log 2 = .193147, over 5 tokens, times .5. Its gradient is (1 - 1/2) / 5 * .5.
    logp_T = TOKENS.behaviour_logp + RATIO_T.log()
    reference_T = logp_T.clone()
    reference_T[0] -= math.log(2)
    tokens = replace(TOKENS, reference_logp=reference_T)
    plain, plain_T = loss_of(mean=Mean.TOKEN)
    value, gradient_T = loss_of(tokens, mean=Mean.TOKEN, kl=0.5)
    assert value - plain == pytest.approx(0.5 * 0.1931472 / 5)
    expected_T = torch.tensor([0.05, 0.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    torch.testing.assert_close(gradient_T - plain_T, expected_T, atol=1e-12, rtol=0)


def test_a_penalty_needs_a_reference():
    with pytest.raises(ValueError, match="needs the reference policy's logprobs"):
        loss_of(kl=0.1)


def test_statistics():
    logp_T = TOKENS.behaviour_logp + RATIO_T.log()
    seen = PolicyLoss(clip_low=0.2, clip_high=0.25).statistics(logp_T, TOKENS)
    # |log r|: log 1.5, log 2 twice, 0 and log 1.3: their sum is the log of 1.5 * 4 * 1.3.
    expected = {"tokens": 5, "clipped": 3, "ratio": 4.8, "log_ratio": math.log(7.8)}
    assert seen == pytest.approx(expected | {"ratio_error": 0.5})


def test_statistics_of_no_tokens():
    none = TOKENS.at(torch.tensor([], dtype=torch.long))
    seen = PolicyLoss().statistics(torch.zeros(0, dtype=torch.float64), none)
    assert set(seen.values()) == {0.0}


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"clip_low": 0.0}, "low in"),
        ({"clip_low": 1.5}, "got low=1.5"),
        ({"clip_high": 0.0}, "high above 0"),
        ({"clip_high": math.nan}, "high above 0"),
        ({"kl": -0.1}, "kl: a coefficient of at least 0 is needed, got -0.1"),
        ({"kl": math.inf}, "kl: a coefficient"),
        ({"dual_clip": 1.0}, "dual_clip: above 1 is needed, got 1.0"),
        ({"length": 0.0}, "length: a number above 0"),
        ({"length": math.inf}, "length: a number above 0"),
    ],
)
def test_bounds_that_make_no_sense_are_refused(wrong, match):
    with pytest.raises(ValueError, match=match):
        PolicyLoss(**wrong)

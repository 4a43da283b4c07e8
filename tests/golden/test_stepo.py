"""STEPO in EvoCUA-1.5, arXiv:2607.09773: its arithmetic, worked by hand."""

import pytest
import torch
from tests.golden.told import chain, judged, near

from retrograde.algorithms.stepo import stepo
from retrograde.credit.group_relative import GroupRelative
from retrograde.credit.turn_share import TurnShare
from retrograde.data.batch import ActionTokens
from retrograde.data.rows import rows_of
from retrograde.data.tree import End, Group
from retrograde.losses.policy import Mean, PolicyLoss

# Returns 1, 0, 0, 1 after 4, 10, 6 and 2 turns: mean 1/2, population deviation 1/2, so
# A = 1, -1, -1, 1 and a turn gets 1/4, -1/10, -1/6, 1/2.
LENGTHS = (4, 10, 6, 2)
TREES = tuple(
    chain(*(0.0,) * (length - 1), reward)
    for length, reward in zip(LENGTHS, (1.0, 0.0, 0.0, 1.0), strict=True)
)


def test_a_rollout_is_divided_among_its_turns():
    found = judged(TurnShare(), *TREES)
    assert found == near([[0.25] * 4, [-0.1] * 10, [-1 / 6] * 6, [0.5] * 2], 1e-5)
    assert sum(map(sum, found)) == pytest.approx(0.0, abs=1e-9)


def test_naively_the_group_does_not_add_up_to_nothing():
    # 4 - 10 - 6 + 2 = -10: what long failures cost a group that is judged turn by turn.
    # GRPO's own deviation is a sample's, sqrt(1/3); in units of it the A are .866.
    naive = judged(GroupRelative(), *TREES)
    one = naive[0][0]
    assert sum(map(sum, naive)) / one == pytest.approx(-10)


def test_a_sample_deviation_is_an_option():
    # sqrt(4 * .25 / 3) = .57735: .5 / .57735 / 4.
    found = judged(TurnShare(population=False), *TREES)
    assert found[0] == pytest.approx([0.5 / (3**-0.5 + 1e-6) / 4] * 4)


def gradient(loss, *trees):
    """Of the log-probability of each token, when nothing has moved yet."""
    group = Group("t", trees)
    rows = rows_of([group], [stepo().credit(group, 0)])
    tokens = ActionTokens.of(rows)
    logp_T = tokens.behaviour_logp.clone().requires_grad_()
    loss(logp_T, tokens, loss.weights(tokens)).backward()
    return torch.zeros(4).index_add(0, tokens.rollout, logp_T.grad).tolist()


def test_every_rollout_pulls_equally_hard():
    # (1/4) sum over turns of -A / |T|: -1/4, 1/4, 1/4, -1/4, whatever the length.
    assert gradient(stepo().loss, *TREES) == pytest.approx([-0.25, 0.25, 0.25, -0.25], abs=1e-5)


@pytest.mark.parametrize(
    ("mean", "expected"),
    [
        # Dividing twice: a rollout's mean over |T| equal turns of A / |T| is A / |T|.
        (Mean.ROLLOUT, [-1 / 16, 1 / 40, 1 / 24, -1 / 8]),
        # A mean over all 22 turns is the right one times a number of the batch: 4 / 22.
        (Mean.TURN, [-1 / 22, 1 / 22, 1 / 22, -1 / 22]),
    ],
)
def test_a_mean_over_a_rollouts_turns_divides_twice(mean, expected):
    assert gradient(PolicyLoss(mean=mean), *TREES) == pytest.approx(expected, abs=1e-5)


def test_tokens_of_a_turn_share_what_it_gets():
    # Two turns of 1 and 3 tokens, A = 1: 1/2 and 1/2 / 3 each, over 2 rollouts.
    long, short = chain(0.0, 1.0, tokens=(1, 3)), chain(0.0)
    group = Group("t", (long, short))
    rows = rows_of([group], [stepo().credit(group, 0)])
    tokens = ActionTokens.of(rows)
    logp_T = tokens.behaviour_logp.clone().requires_grad_()
    loss = stepo().loss
    loss(logp_T, tokens, loss.weights(tokens)).backward()
    assert (-logp_T.grad).tolist() == pytest.approx([1 / 4] + [1 / 12] * 3 + [-1 / 2], abs=1e-5)


def test_the_mean_is_over_rollouts_and_not_over_turns():
    # Mean of returns 1, 0, 0 is 1/3; weighted by turns it would be 4/18.
    found = judged(TurnShare(), *TREES[:3])
    assert sum(map(sum, found)) == pytest.approx(0.0, abs=1e-9)


def test_failed_rollouts_take_no_part_and_equal_returns_give_exactly_nothing():
    failed = chain(0.0, 0.0, end=End.FAILED)
    found = judged(TurnShare(), TREES[0], TREES[3], failed)
    assert found == [[0.0] * 4, [0.0] * 2, [None] * 2]
    assert judged(TurnShare(), chain(0.1, 0.2), chain(0.3)) == [[0.0, 0.0], [0.0]]


def test_the_algorithm():
    algorithm = stepo(rollouts=4, clip_high=0.3, std="sample")
    assert algorithm == stepo(rollouts=4, clip_high=0.3, std="sample")
    assert algorithm.credit == TurnShare(population=False)
    assert algorithm.loss == PolicyLoss(0.2, 0.3, mean=Mean.ROLLOUT_TURNS)
    with pytest.raises(ValueError, match=r"rollouts: at least 2 .* got 1"):
        stepo(rollouts=1)

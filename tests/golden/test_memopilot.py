"""MemoPilot, arXiv:2606.08656, multi-turn GRPO: worked by hand."""

import pytest
import torch
from tests.golden.told import chain, judged, near

from retrograde.algorithms.fit import obstacles
from retrograde.algorithms.memopilot import memopilot
from retrograde.credit.next_reward import NextReward
from retrograde.data.batch import ActionTokens
from retrograde.data.offer import Offer
from retrograde.data.rows import rows_of
from retrograde.data.tree import End, Group
from retrograde.environments.hop import Hop

# Rewards of three rollouts, four games each; a memo is worth the next game:
#
#   0 1 3 2      R  1 3 2 -      column 1: 1, 0, -1 around 0, deviation sqrt(2/3) = .8165
#   1 0 2 5      R  0 2 5 -      column 2: 3, 2, 1 around 2, the same
#   2 -1 1 0     R -1 1 0 -      column 3: 2, 5, 0 around 7/3, deviation 2.0548
TREES = chain(0.0, 1.0, 3.0, 2.0), chain(1.0, 0.0, 2.0, 5.0), chain(2.0, -1.0, 1.0, 0.0)


def test_a_turn_is_worth_the_next_turns_reward():
    assert judged(NextReward(), *TREES) == near(
        [
            [1.225, 1.225, -0.162, None],
            [0.0, 0.0, 1.298, None],
            [-1.225, -1.225, -1.136, None],
        ],
        1e-3,
    )


def test_the_last_turn_does_not_train():
    assert judged(NextReward(), chain(1.0), chain(0.0)) == [[None], [None]]


def test_traps():
    found = judged(NextReward(), *TREES)
    # Its own reward is over before the memo: column 0 would be 0, 1, 2, the other way round.
    own = judged(NextReward(delay=0), *TREES)
    assert own[0][0] < 0 < found[0][0]
    # All later rewards: 6, 7, 0 of the first memos would put the second rollout first.
    assert found[0][0] > found[1][0]
    # Normalised over a rollout's turns, each rollout's advantages would add up to nothing.
    assert sum(found[0][:3]) == pytest.approx(2.288, abs=1e-2)
    # Over the rollouts at one turn, they do.
    assert [sum(each[t] for each in found) for t in range(3)] == pytest.approx([0.0] * 3)


def test_a_turns_own_reward_on_request():
    # Column 0 is 0, 1, 2 around 1; the last column 2, 5, 0 is judged as well.
    found = judged(NextReward(delay=0), *TREES)
    assert [each[0] for each in found] == pytest.approx([-1.2247, 0.0, 1.2247], abs=1e-3)
    assert found[1][3] == pytest.approx(1.298, abs=1e-3)


def test_rollouts_of_unequal_length_meet_where_they_have_turns():
    # Turn 0: 1, 0 around 1/2. Turn 1: only the longer one has a next turn, and nobody to meet.
    found = judged(NextReward(), chain(0.0, 1.0, 5.0), chain(0.0, 0.0))
    assert found == near([[1.0, 0.0, None], [-1.0, None]])


def test_equal_rewards_give_exactly_nothing_and_failures_take_no_part():
    same = chain(0.0, 0.1), chain(1.0, 0.1)
    assert judged(NextReward(), *same) == [[0.0, None]] * 2
    failed = chain(0.0, 9.0, end=End.FAILED)
    assert judged(NextReward(), *TREES, failed)[:3] == judged(NextReward(), *TREES)
    assert judged(NextReward(), *TREES, failed)[3] == [None, None]


def test_memos_are_added_up_over_rollouts():
    # (1/G) sum over memos of the mean over a memo's tokens; two rollouts, advantages +-1. The
    # first has memos of 2 and 1 tokens: 1/2 * 1/2 each, and 1/2 for the second, which has no
    # advantage. A mean over a rollout's tokens would give 1/6.
    group = Group("t", (chain(0.0, 1.0, 5.0, tokens=(2, 1, 1)), chain(0.0, 0.0)))
    algorithm = memopilot()
    rows = rows_of([group], [algorithm.credit(group, 0)])
    tokens = ActionTokens.of(rows)
    logp_T = tokens.behaviour_logp.clone().requires_grad_()
    loss = algorithm.loss
    weight_T = loss.weights(tokens)
    assert weight_T.tolist() == pytest.approx([1 / 4, 1 / 4, 1 / 2, 1 / 2])
    loss(logp_T, tokens, weight_T).backward()
    torch.testing.assert_close(
        logp_T.grad, torch.tensor([-0.25, -0.25, 0.0, 0.5]), atol=1e-5, rtol=0
    )


def test_the_algorithm_needs_turn_rewards():
    assert memopilot() == memopilot()
    assert memopilot(delay=0).credit == NextReward(0)
    assert memopilot().needs == (Offer.TURN_REWARDS,)
    (said,) = obstacles(memopilot(), Hop())
    assert "a reward with every Observation, not only the last" in said


def test_bad_options_are_refused():
    with pytest.raises(ValueError, match=r"delay: at least 0 .* got -1"):
        memopilot(delay=-1)
    with pytest.raises(ValueError, match="rollouts: at least 2"):
        memopilot(rollouts=1)

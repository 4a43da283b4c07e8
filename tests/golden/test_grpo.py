"""GRPO, arXiv:2402.03300, section 4.1.2: groups of rollouts, worked by hand."""

import math

import pytest
import torch

from retrograde.algorithms.grpo import grpo
from retrograde.credit.group_relative import GroupRelative
from retrograde.data.batch import ActionTokens
from retrograde.data.rows import rows_of
from retrograde.data.tree import ROOT_PARENT, End, Group, Tree, Turn
from retrograde.rollouts.plans import NEW_TREE, Fork


def rollout(*rewards, end=End.FINISHED, tokens=1):
    """An unbranched rollout with one reward a turn."""
    last = len(rewards) - 1
    return Tree(
        tuple(
            Turn(
                parent=i - 1 if i else ROOT_PARENT,
                shared=0,
                fresh=(9,),
                observation=(9,),
                action=tuple(range(tokens)),
                logprobs=(-1.0,) * tokens,
                grown_in=0,
                policy_version=0,
                reward=reward,
                end=end if i == last else None,
            )
            for i, reward in enumerate(rewards)
        )
    )


def advantages(*trees, scale=True):
    return [judged.advantage_V for judged in GroupRelative(scale)(Group("t", trees), 0)]


def trains(*trees):
    return [judged.trains_V for judged in GroupRelative()(Group("t", trees), 0)]


def test_four_rollouts():
    # Returns 1, 0, 0, 1: mean 1/2, sample variance 4 * .25 / 3, standard deviation .57735.
    # .5 / (.57735 + .000001) = .866024. Each turn of a rollout gets it.
    actual = advantages(rollout(0.0, 1.0), rollout(0.0), rollout(0.0, 0.0), rollout(1.0))
    high = 0.5 / (math.sqrt(1 / 3) + 1e-6)
    assert high == pytest.approx(0.8660239)
    assert actual == [
        pytest.approx((high, high)),
        pytest.approx((-high,)),
        pytest.approx((-high, -high)),
        pytest.approx((high,)),
    ]


def test_without_scale_it_is_return_minus_mean():
    # Returns are sums over turns: 1.5, 0, 0: mean 1/2.
    actual = advantages(rollout(0.5, 1.0), rollout(0.0), rollout(0.0), scale=False)
    assert actual == [(1.0, 1.0), (-0.5,), (-0.5,)]


def test_a_failed_rollout_is_neither_trained_nor_in_the_mean():
    # 1 and 0 around 1/2, standard deviation sqrt(.5); the 0 of the failed one is no return.
    trees = rollout(1.0), rollout(0.0, 0.0, end=End.FAILED), rollout(0.0)
    high = 0.5 / (math.sqrt(0.5) + 1e-6)
    assert advantages(*trees) == [pytest.approx((high,)), (0.0, 0.0), pytest.approx((-high,))]
    assert trains(*trees) == [(True,), (False, False), (True,)]


def test_a_truncated_rollout_counts():
    assert advantages(rollout(1.0), rollout(0.0, end=End.TRUNCATED), scale=False) == [
        (0.5,),
        (-0.5,),
    ]


@pytest.mark.parametrize("scale", [True, False])
def test_a_single_rollout_trains_with_nothing(scale):
    trees = rollout(1.0), rollout(1.0, end=End.FAILED)
    assert advantages(*trees, scale=scale) == [(0.0,), (0.0,)]
    assert trains(*trees) == [(True,), (False,)]


@pytest.mark.parametrize("scale", [True, False])
def test_where_all_failed_nothing_trains(scale):
    tree = rollout(0.0, end=End.FAILED)
    assert advantages(tree, tree, scale=scale) == [(0.0,), (0.0,)]
    assert trains(tree, tree) == [(False,), (False,)]


@pytest.mark.parametrize("scale", [True, False])
def test_equal_returns_give_exactly_nothing(scale):
    # .1 + .2 and .3 differ in floating point, by 6e-17, and that is no difference.
    assert 0.1 + 0.2 != 0.3
    trees = rollout(0.1, 0.2), rollout(0.1, 0.2), rollout(0.3)
    assert advantages(*trees, scale=scale) == [(0.0, 0.0), (0.0, 0.0), (0.0,)]


def test_the_plan_is_independent_rollouts():
    plan = grpo(rollouts=3).grow
    assert plan([Group("a"), Group("b")], 0) == [[Fork(NEW_TREE, ROOT_PARENT)] * 3] * 2
    assert plan([Group("a"), Group("b")], 1) == [[], []]
    assert not plan.forks


@pytest.mark.parametrize(
    ("mean", "expected"),
    [
        # Three rows: two of 2 tokens in rollout 0 (A = .5), one of 1 token in rollout 1.
        # Over tokens: A / 5. Over rollouts: .5 / 2 / 4 = 1/16 and .5 / 2 = 1/4.
        ("token", [-0.1, -0.1, -0.1, -0.1, 0.1]),
        ("rollout", [-1 / 16] * 4 + [1 / 4]),
    ],
)
def test_the_first_gradient(mean, expected):
    algorithm = grpo(scale=False, mean=mean)
    group = Group("t", (rollout(0.0, 1.0, tokens=2), rollout(0.0)))
    rows = rows_of([group], [algorithm.credit(group, 0)], algorithm.view)
    tokens = ActionTokens.of(rows)
    logp_T = tokens.behaviour_logp.clone().requires_grad_()
    algorithm.loss(logp_T, tokens, algorithm.loss.weights(tokens)).backward()
    torch.testing.assert_close(logp_T.grad, torch.tensor(expected))

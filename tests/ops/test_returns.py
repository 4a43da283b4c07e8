import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from retrograde.ops.returns import gae


def of(reward, value, gamma, lam):
    return gae(
        torch.tensor(reward, dtype=torch.float64), torch.tensor(value, dtype=torch.float64),
        gamma, lam,
    ).tolist()  # fmt: skip


def test_gae_by_hand():
    # gamma .5, lam .5, rewards 0, 1, 2, values 1, 2, 4. From the last state back:
    # delta 2 - 4 = -2                  A = -2
    # delta 1 + .5 * 4 - 2 = 1          A = 1 + .25 * -2 = .5
    # delta 0 + .5 * 2 - 1 = 0          A = 0 + .25 * .5 = .125
    assert of([0.0, 1.0, 2.0], [1.0, 2.0, 4.0], 0.5, 0.5) == [0.125, 0.5, -2.0]


def test_no_states():
    assert of([], [], 1.0, 1.0) == []


states = st.lists(st.tuples(st.floats(-2, 2), st.floats(-2, 2)), min_size=1, max_size=8)
share = st.sampled_from((0.0, 0.3, 0.9, 1.0))


@given(states, share)
def test_with_lam_1_it_is_the_discounted_return_less_the_value(rollout, gamma):
    rewards, values = zip(*rollout, strict=True)
    to_go = [
        sum(gamma ** (j - i) * rewards[j] for j in range(i, len(rewards)))
        for i in range(len(rewards))
    ]
    expected = [total - value for total, value in zip(to_go, values, strict=True)]
    assert of(rewards, values, gamma, 1.0) == pytest.approx(expected)


@given(states, share)
def test_with_lam_0_it_is_one_step(rollout, gamma):
    rewards, values = zip(*rollout, strict=True)
    after = [*values[1:], 0.0]
    expected = [r + gamma * v - own for r, v, own in zip(rewards, after, values, strict=True)]
    assert of(rewards, values, gamma, 0.0) == pytest.approx(expected)


@given(states, share, share)
def test_a_critic_that_is_right_leaves_no_advantage(rollout, gamma, lam):
    rewards = [reward for reward, _ in rollout]
    to_go = [
        sum(gamma ** (j - i) * rewards[j] for j in range(i, len(rewards)))
        for i in range(len(rewards))
    ]
    assert of(rewards, to_go, gamma, lam) == pytest.approx([0.0] * len(rewards), abs=1e-9)


@given(states, share, share, st.lists(st.integers(0, 3), min_size=8, max_size=8))
def test_observations_between_states_change_nothing(rollout, gamma, lam, gaps):
    """As verl has it: padded with observation tokens, which carry value and advantage on."""
    rewards, values = zip(*rollout, strict=True)
    reward, value, mask = [], [], []
    for i, gap in enumerate(gaps[: len(rewards)]):
        reward += [rewards[i]] + [0.0] * gap
        value += [values[i]] + [99.0] * gap  # what is said of an observation does not matter
        mask += [1] + [0] * gap
    carried, after, found = 0.0, 0.0, []
    for t in reversed(range(len(mask))):
        delta = reward[t] + gamma * after - value[t]
        here = delta + gamma * lam * carried
        after = value[t] * mask[t] + (1 - mask[t]) * after
        carried = here * mask[t] + (1 - mask[t]) * carried
        found.append(carried)
    padded = [a for a, kept in zip(found[::-1], mask, strict=True) if kept]
    assert of(rewards, values, gamma, lam) == pytest.approx(padded)

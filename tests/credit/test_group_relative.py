"""Laws of group credit. Numbers worked by hand are in `tests/golden/test_grpo.py`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrograde.credit.group_relative import GroupRelative
from retrograde.data.tree import ROOT_PARENT, End, Group, Tree, Turn

eighths = st.integers(-8, 16).map(lambda i: i / 8)
rollouts = st.lists(
    st.tuples(st.lists(eighths, min_size=1, max_size=3), st.sampled_from((*End,)[:3])),
    min_size=1,
    max_size=6,
)


def tree_of(rewards, end):
    last = len(rewards) - 1
    return Tree(
        tuple(
            Turn(
                i - 1 if i else ROOT_PARENT,
                *(0, (9,), (9,), (1,), (-1.0,), 0, 0),
                reward=0.0 if end is End.FAILED and i == last else reward,
                end=end if i == last else None,
            )
            for i, reward in enumerate(rewards)
        )
    )


def judged(members, *, scale):
    return GroupRelative(scale)(Group("t", tuple(tree_of(*member) for member in members)), 0)


@given(rollouts, st.booleans())
def test_advantages_sum_to_nothing_over_the_rollouts_that_count(members, scale):
    firsts = [judgement.advantage_V[0] for judgement in judged(members, scale=scale)]
    assert sum(firsts) == pytest.approx(0, abs=1e-6)


@given(rollouts, st.booleans())
def test_a_rollout_trains_exactly_if_it_did_not_fail(members, scale):
    for (rewards, end), judgement in zip(members, judged(members, scale=scale), strict=True):
        assert judgement.trains_V == (end is not End.FAILED,) * len(rewards)
        assert len(set(judgement.advantage_V)) == 1


@given(rollouts, st.booleans(), st.randoms())
def test_permuting_a_group_permutes_its_advantages(members, scale, random):
    order = list(range(len(members)))
    random.shuffle(order)
    expected = judged(members, scale=scale)
    shuffled = judged([members[i] for i in order], scale=scale)
    for place, i in enumerate(order):
        assert shuffled[place].advantage_V == pytest.approx(expected[i].advantage_V, abs=1e-9)
        assert shuffled[place].trains_V == expected[i].trains_V


@given(rollouts, st.booleans(), st.integers(-5, 5))
def test_a_constant_on_every_return_changes_no_advantage(members, scale, constant):
    shifted = [([rewards[0] + constant, *rewards[1:]], end) for rewards, end in members]
    # A failed rollout's last reward is always 0; it counts nowhere.
    expected = judged(members, scale=scale)
    for actual, before in zip(judged(shifted, scale=scale), expected, strict=True):
        assert actual.advantage_V == pytest.approx(before.advantage_V, abs=1e-9)


@given(rollouts, st.integers(1, 5))
def test_scaling_makes_the_unit_of_rewards_irrelevant(members, factor):
    scaled = [([factor * reward for reward in rewards], end) for rewards, end in members]
    expected = judged(members, scale=True)
    for actual, before in zip(judged(scaled, scale=True), expected, strict=True):
        # The 1e-6 in the denominator is all that keeps it from being exact.
        assert actual.advantage_V == pytest.approx(before.advantage_V, abs=1e-4)


@given(st.floats(-1e9, 1e9), st.integers(1, 7), st.booleans())
def test_equal_returns_get_exactly_nothing(reward, count, scale):
    members = [([reward], End.FINISHED)] * count
    assert {j.advantage_V for j in judged(members, scale=scale)} == {(0.0,)}

"""REINFORCE++, arXiv:2501.03262: returns to go, whitened over the update, worked by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrograde.algorithms.reinforce_pp import reinforce_pp
from retrograde.credit.to_go import ReturnToGo
from retrograde.credit.whitening import Whitened
from retrograde.data.rows import Row
from retrograde.data.tree import End, Group

from .chains import advantages, gradient, rollout, rows


def to_go(*trees):
    return [judged.advantage_V for judged in ReturnToGo()(Group("t", trees), 0)]


def test_what_is_still_to_come():
    # .5 + .25 + 1; then what turn 0 earned is gone, then what turn 1 earned.
    assert to_go(rollout(0.5, 0.25, 1.0)) == [(1.75, 1.25, 1.0)]


def test_an_outcome_reaches_the_first_turn_across_every_observation():
    # verl's code forgets the return at each observation: there turns 0 and 1 get 0.
    assert to_go(rollout(0.0, 0.0, 1.0)) == [(1.0, 1.0, 1.0)]


def test_whitening_counts_tokens():
    # To go 1, 1 at two tokens and at one, 0 at three tokens: mean 1/2, sample variance
    # 6 * .25 / 5 = .3. By turns the mean were 2/3.
    group = rollout(0.0, 1.0, tokens=(2, 1)), rollout(0.0, tokens=3)
    high = 0.5 / math.sqrt(0.3 + 1e-8)
    assert high == pytest.approx(0.9128709)
    assert advantages(reinforce_pp(), *group) == pytest.approx([high, high, -high])
    # A / 6 tokens.
    expected = [-high / 6] * 3 + [high / 6] * 3
    assert gradient(reinforce_pp(), group) == pytest.approx(expected)


def test_whitening_sees_the_whole_update():
    # Returns 1, 1 | 0, 0 in two groups: mean 1/2, variance 4 * .25 / 3. Group by group, or
    # in microbatches, all would be equal and nothing said.
    easy, hard = (rollout(1.0), rollout(1.0)), (rollout(0.0), rollout(0.0))
    high = 0.5 / math.sqrt(1 / 3 + 1e-8)
    found = [row.advantage for row in rows(reinforce_pp(), easy, hard)]
    assert found == pytest.approx([high, high, -high, -high])


def test_with_a_baseline_the_groups_mean_goes_first():
    # 1, 0 around 1/2 and 1, 1 around 1: .5, -.5, 0, 0; mean 0, variance .5 / 3.
    groups = (rollout(1.0), rollout(0.0)), (rollout(1.0), rollout(1.0))
    high = 0.5 / math.sqrt(0.5 / 3 + 1e-8)
    found = [row.advantage for row in rows(reinforce_pp(baseline="group"), *groups)]
    assert found == pytest.approx([high, -high, 0.0, 0.0])


def test_with_a_baseline_every_turn_has_the_whole_return():
    # Returns 1.5 and .5; with the baseline the turns of a rollout are alike.
    first, second, _ = advantages(reinforce_pp(baseline="group"), rollout(0.5, 1.0), rollout(0.5))
    assert first == second
    first, second, _ = advantages(reinforce_pp(), rollout(0.5, 1.0), rollout(0.5))
    assert first > second


def test_what_is_equal_gives_exactly_nothing():
    assert advantages(reinforce_pp(), rollout(0.3), rollout(0.3)) == [0.0, 0.0]
    assert advantages(reinforce_pp(), rollout(1.0)) == [0.0]
    lost = rollout(1.0, end=End.FAILED)
    assert advantages(reinforce_pp(), lost) == []
    assert len(advantages(reinforce_pp(), lost, rollout(1.0), rollout(0.0))) == 2
    assert Whitened()([]) == []


@st.composite
def judged(draw):
    lengths = draw(st.lists(st.integers(1, 4), min_size=2, max_size=6))
    every = st.floats(-3, 3)
    return [
        Row((1,), (2,) * n, (-1.0,) * n, tuple(draw(every) for _ in range(n)), 0, 0, (0, 0, 0, i))
        for i, n in enumerate(lengths)
    ]


@given(judged(), st.floats(-2, 2), st.sampled_from((0.5, 2.0)))
def test_whitened_advantages_have_mean_0_and_variance_1(before, shift, scale):
    after = [a for row in Whitened()(before) for a in row.advantages]
    each = [a for row in before for a in row.advantages]
    if max(each) - min(each) < 0.1:
        return
    assert sum(after) == pytest.approx(0, abs=1e-9)
    assert sum(a * a for a in after) / (len(after) - 1) == pytest.approx(1, abs=1e-4)
    moved = [
        Row(r.context, r.action, r.behaviour_logp, tuple(scale * a + shift for a in r.advantages),
            0, 0, r.rollout)
        for r in before
    ]  # fmt: skip
    assert [a for row in Whitened()(moved) for a in row.advantages] == pytest.approx(
        after, abs=1e-4
    )


def test_by_turns_each_turn_counts_once():
    # 1 at four tokens and 0 at one: mean 1/2, variance .5.
    long = Row((1,), (2,) * 4, (-1.0,) * 4, 1.0, 0, 0, (0, 0, 0, 0))
    short = Row((1,), (2,), (-1.0,), 0.0, 0, 0, (0, 0, 0, 1))
    high = 0.5 / math.sqrt(0.5 + 1e-8)
    assert [r.advantage for r in Whitened(turns=True)([long, short])] == pytest.approx(
        [high, -high]
    )


def test_equal_arguments_give_equal_algorithms():
    assert reinforce_pp() == reinforce_pp(baseline="none") != reinforce_pp(baseline="group")
    with pytest.raises(ValueError, match="rollouts: at least 2"):
        reinforce_pp(rollouts=1, baseline="group")

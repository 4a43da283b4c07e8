"""PPO with a critic, arXiv:1707.06347: advantages of tokens across turns, worked by hand."""

import math
from dataclasses import replace

import pytest

from retrograde.algorithms.ppo import ppo
from retrograde.algorithms.reinforce import reinforce
from retrograde.credit.gae import GAE
from retrograde.data.evidence import Evidence
from retrograde.data.rows import rows_of
from retrograde.data.tree import ROOT_PARENT, End, Group, Tree, Turn

from .chains import gradient, rollout

# Two turns of two tokens each, an outcome of 1 at the end.
#
#   turn 0          turn 1              gamma 1, lam .5
#   V .5   .25      .5   1
#   r 0    0        0    1
#   delta, last to first: 1 - 1 = 0;  1 - .5 = .5;  .5 - .25 = .25;  .25 - .5 = -.25
#   A:    0;   .5 + .5 * 0 = .5;   .25 + .5 * .5 = .5;   -.25 + .5 * .5 = 0
ROLLOUT = rollout(0.0, 1.0, tokens=2)
VALUES = {(0, 0): (0.5, 0.25), (0, 1): (0.5, 1.0)}


def judged(*trees, values, **options):
    return GAE(**options)(Group("t", trees), 0, Evidence(values=values))


def test_advantages_pass_from_turn_to_turn():
    (found,) = judged(ROLLOUT, values=VALUES, lam=0.5)
    assert found.advantage_V == ((0.0, 0.5), (0.5, 0.0))
    assert found.trains_V == (True, True)
    # R = A + V, taken before whitening.
    assert found.target_V == ((0.5, 0.75), (1.0, 1.0))
    assert found.value_V == ((0.5, 0.25), (0.5, 1.0))


def test_an_observation_does_not_break_the_carry():
    # Were it broken, the last token of turn 0 would be worth 0 - .25 and its first .25 - .5 - .125.
    (found,) = judged(ROLLOUT, values=VALUES, lam=0.5)
    assert found.advantage_V[0] != pytest.approx((-0.375, -0.25))


def test_without_a_lookahead_each_token_is_judged_by_the_next_value():
    (found,) = judged(ROLLOUT, values=VALUES, lam=0.0)
    assert found.advantage_V == ((-0.25, 0.25), (0.5, 0.0))


def test_a_reward_comes_with_the_last_token_of_its_turn():
    # Values 0, lam 1, gamma .5, rewards 1 and 1 at tokens 1 and 3:
    # 1, .5, then 1 + .5 * .5 = 1.25, .625.
    nothing = {(0, 0): (0.0, 0.0), (0, 1): (0.0, 0.0)}
    (found,) = judged(rollout(1.0, 1.0, tokens=2), values=nothing, gamma=0.5)
    assert found.advantage_V == ((0.625, 1.25), (0.5, 1.0))


def test_a_failed_rollout_does_not_train_and_a_truncated_one_is_worth_0_afterwards():
    lost, cut = rollout(1.0, end=End.FAILED), rollout(0.0, end=End.TRUNCATED)
    first, second = judged(lost, cut, values={(1, 0): (0.25,)})
    assert first.trains_V == (False,)
    assert second.advantage_V == ((-0.25,),)


def test_a_tree_that_branches_is_refused():
    def turn(parent, end=None):
        return Turn(parent, 0, (1,), (1,), (2,), (-1.0,), 0, 0, end=end)

    tree = Tree((turn(ROOT_PARENT), turn(0, End.FINISHED), turn(0, End.FINISHED)))
    with pytest.raises(ValueError, match="tree 0 has 2 leaves: let the plan be Chains"):
        judged(tree, values={})


def test_a_value_too_few_is_refused():
    with pytest.raises(ValueError, match="turn 1 of tree 0 needs 2 values of a critic, got 1"):
        judged(ROLLOUT, values={(0, 0): (0.0, 0.0), (0, 1): (0.0,)})


def whitened(algorithm, *groups):
    """Rows of an update; each group is (trees, values)."""
    grown = [Group("t", trees) for trees, _ in groups]
    judgements = [
        algorithm.credit(group, 0, Evidence(values=values))
        for group, (_, values) in zip(grown, groups, strict=True)
    ]
    return algorithm.normalise(rows_of(grown, judgements))


def test_advantages_are_whitened_over_all_tokens_of_the_update():
    # 0, .5, .5, 0 of one group and -1 of another: mean 0, variance (.25 + .25 + 1) / 4 = .375.
    other = (rollout(0.0),), {(0, 0): (1.0,)}
    rows = whitened(ppo(lam=0.5), ((ROLLOUT,), VALUES), other)
    high = 0.5 / math.sqrt(0.375 + 1e-8)
    assert [row.advantage for row in rows] == [
        pytest.approx((0.0, high)), pytest.approx((high, 0.0)), pytest.approx((-2 * high,)),
    ]  # fmt: skip
    # Alone, in a microbatch of its own, the first group has another mean.
    alone = whitened(ppo(lam=0.5), ((ROLLOUT,), VALUES))
    assert alone[0].advantage != pytest.approx(rows[0].advantage)
    # What the critic is to say is not whitened.
    assert [row.target for row in rows] == [(0.5, 0.75), (1.0, 1.0), (0.0,)]
    assert [row.values for row in rows] == [(0.5, 0.25), (0.5, 1.0), (1.0,)]


@pytest.mark.parametrize(("dual", "weight"), [(None, 4.0), (3.0, 0.0)])
def test_a_dual_clip_bounds_the_loss_of_a_bad_token(dual, weight):
    # Without a critic's credit the loss is plain: A = 1 at ratio 1.1, A = -1 at ratio 4, over 2.
    algorithm = replace(reinforce(), loss=ppo(dual_clip=dual).loss)
    group = rollout(2.0), rollout(0.0)
    found = gradient(algorithm, group, ratios=[1.1, 4.0])
    assert found == pytest.approx([-1.1 / 2, weight / 2])


def test_equal_arguments_give_equal_algorithms():
    assert ppo() == ppo(critic="own") != ppo(critic="shared")
    assert not ppo().critic.shared
    assert ppo(critic="shared", value_coefficient=0.1).critic.coefficient == 0.1
    for wrong, match in (
        ({"gamma": 1.5}, "gamma: between 0 and 1"),
        ({"lam": -0.1}, "lam: between 0 and 1"),
        ({"value_clip": 0.0}, "value clip"),
        ({"dual_clip": 1.0}, "dual_clip: above 1"),
    ):
        with pytest.raises(ValueError, match=match):
            ppo(**wrong)

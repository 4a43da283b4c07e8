"""GiGPO, arXiv:2505.10978, equations 3 to 8: a group with a shared place, worked by hand."""

import math

import pytest
from tests.golden.told import chain, judged, near

from retrograde.algorithms.gigpo import gigpo
from retrograde.credit.anchor import AnchorRelative, step_returns
from retrograde.data.tree import End, Group
from retrograde.losses.policy import Mean
from retrograde.rollouts.plans import NEW_TREE, ROOT_PARENT, Fork

OPEN, HALL, YARD = (1, 1), (2, 2), (3, 3)

# What was told before each turn, what each turn earned; gamma = 1/2:
#
#   a   OPEN 0   HALL 0   YARD 1     step returns  .25  .5  1     return 1
#   b   OPEN 0   HALL 0              step returns  0    0         return 0
#   c   OPEN 0   HALL 1              step returns  .5   1         return 1
A = chain(0.0, 0.0, 1.0, told=(OPEN, HALL, YARD))
B = chain(0.0, 0.0, told=(OPEN, HALL))
C = chain(0.0, 1.0, told=(OPEN, HALL))
PLAIN = AnchorRelative(omega=1.0, gamma=0.5, scale=False)


def test_step_returns():
    found = step_returns(Group("t", (A, B, C)), 0.5)
    assert [found[0, 2, k] for k in range(3)] == [0.25, 0.5, 1.0]
    assert [found[1, 1, k] for k in range(2)] == [0.0, 0.0]
    assert [found[2, 1, k] for k in range(2)] == [0.5, 1.0]


def test_episode_and_step_advantages_add_up():
    # A^E: 1, 0, 1 around 2/3: 1/3, -2/3, 1/3.
    # A^S, OPEN: .25, 0, .5 around .25: 0, -.25, .25.  HALL: .5, 0, 1 around .5: 0, -.5, .5.
    # YARD was seen once: 0.
    assert judged(PLAIN, A, B, C) == near(
        [[1 / 3, 1 / 3, 1 / 3], [-2 / 3 - 0.25, -2 / 3 - 0.5], [1 / 3 + 0.25, 1 / 3 + 0.5]]
    )


def test_omega_weighs_the_steps():
    without = judged(AnchorRelative(omega=0.0, scale=False), A, B, C)
    assert without == near([[1 / 3] * 3, [-2 / 3] * 2, [1 / 3] * 2])
    double = judged(AnchorRelative(omega=2.0, gamma=0.5, scale=False), A, B, C)
    assert double[1] == near([[-2 / 3 - 0.5, -2 / 3 - 1.0]])[0]


def test_both_are_divided_by_a_standard_deviation():
    # A^E: variance (1/9 + 4/9 + 1/9) / 2 = 1/3. OPEN: (0 + 1/16 + 1/16) / 2 = 1/16, so 1/4.
    # HALL: (0 + 1/4 + 1/4) / 2 = 1/4, so 1/2. b: -2/3 / sqrt(1/3) - 1, at both turns.
    (_, b, _) = judged(AnchorRelative(gamma=0.5), A, B, C)
    low = -2 / 3 / (math.sqrt(1 / 3) + 1e-6)
    assert b == pytest.approx([low - 0.25 / (0.25 + 1e-6), low - 0.5 / (0.5 + 1e-6)])


def test_a_place_is_the_same_at_whichever_turn_it_was_reached():
    # b comes to HALL a turn later; returns there are .5, 0 and 1 all the same.
    late = chain(0.0, 0.0, 0.0, told=(OPEN, YARD, HALL))
    (a, b, c) = judged(PLAIN, A, late, C)
    assert (a[1], b[2], c[1]) == pytest.approx((1 / 3, -2 / 3 - 0.5, 1 / 3 + 0.5))
    # And YARD now stands against a's: 1 and 0 around .5.
    assert (a[2], b[1]) == pytest.approx((1 / 3 + 0.5, -2 / 3 - 0.5))


def test_without_shared_places_it_is_grpo_from_the_second_turn_on():
    one = chain(0.0, 1.0, told=(OPEN, HALL))
    other = chain(0.0, 0.0, told=(OPEN, YARD))
    # The opening: .5 and 0 around .25. Else the returns alone: 1 and 0 around .5.
    assert judged(PLAIN, one, other) == [[0.75, 0.5], [-0.75, -0.5]]


def test_the_anchor_is_the_observation_and_not_the_context():
    # All turns of a chain have the same context (9,); only what was told tells them apart.
    assert {A.context(k) for k in range(3)} == {(9,)}
    assert judged(PLAIN, A, B, C) != judged(PLAIN, chain(0.0, 0.0, 1.0), chain(0.0, 0.0), C)


def test_similar_observations_count_as_one_if_asked():
    # 19 of 20 tokens alike: ratio 2 * 19 / 40 = .95.
    near_by = (5,) * 19
    one = chain(0.0, 1.0, told=(OPEN, (*near_by, 6)))
    other = chain(0.0, 0.0, told=(OPEN, (*near_by, 7)))
    apart = judged(PLAIN, one, other)
    assert [each[1] for each in apart] == [0.5, -0.5]
    together = judged(AnchorRelative(1.0, 0.5, False, 0.95), one, other)  # noqa: FBT003
    assert [each[1] for each in together] == [1.0, -1.0]
    stricter = judged(AnchorRelative(1.0, 0.5, False, 0.96), one, other)  # noqa: FBT003
    assert stricter == apart


def test_long_observations_are_compared_in_full():
    # difflib leaves out what is frequent in sequences of 200 and more, unless it is told not to:
    # these differ in their first token alone, and it would find nothing in common.
    told = (5,) * 300
    one, other = chain(0.0, 1.0, told=(OPEN, told)), chain(0.0, 0.0, told=(OPEN, (6, *told)))
    together = judged(AnchorRelative(1.0, 0.5, False, 0.9), one, other)  # noqa: FBT003
    assert [each[1] for each in together] == [1.0, -1.0]


def test_equal_outcomes_give_exactly_nothing_where_the_steps_are_equal_too():
    for scale in (True, False):
        credit = AnchorRelative(gamma=1.0, scale=scale)
        same = chain(0.1, 0.2, told=(OPEN, HALL)), chain(0.1, 0.2, told=(OPEN, HALL))
        assert judged(credit, *same) == [[0.0, 0.0], [0.0, 0.0]]
        # Turns from which on .1 + .2 and .3 are earned are equal as well.
        single = chain(0.3, told=(OPEN,))
        assert judged(credit, single, chain(0.1, 0.2, told=(OPEN, HALL))) == [[0.0], [0.0, 0.0]]


def test_a_failed_rollout_is_neither_trained_nor_compared_with():
    failed = chain(0.0, 0.0, told=(OPEN, HALL), end=End.FAILED)
    assert judged(PLAIN, A, B, C, failed) == [*judged(PLAIN, A, B, C), [None, None]]
    assert judged(PLAIN, A, failed) == [[0.0, 0.0, 0.0], [None, None]]


def test_the_algorithm():
    algorithm = gigpo(rollouts=3, norm="mean", mean="token")
    assert algorithm == gigpo(rollouts=3, norm="mean", mean="token")
    assert algorithm.credit == AnchorRelative(scale=False)
    assert algorithm.loss.mean is Mean.TOKEN
    assert algorithm.grow([Group("a")], 0) == [[Fork(NEW_TREE, ROOT_PARENT)] * 3]
    assert gigpo().loss.mean is Mean.TURN


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"omega": -1.0}, "omega: .* got -1"),
        ({"gamma": 1.5}, "gamma: .* got 1.5"),
        ({"similarity": 0.0}, "similarity: .* got 0"),
        ({"rollouts": 1}, "rollouts: at least 2 .* got 1"),
    ],
)
def test_bad_options_are_refused(options, said):
    with pytest.raises(ValueError, match=said):
        gigpo(**options)

"""PlanPO, arXiv:2608.17289, equations 4 to 6: worked by hand."""

import math

import pytest
from tests.golden.told import chain, judged, near, scored

from retrograde.algorithms.planpo import planpo
from retrograde.credit.brevity import Brevity
from retrograde.data.evidence import Evidence
from retrograde.data.tree import End, Group
from retrograde.losses.policy import Level, Mean

START = Evidence(progress=0.0)


def played(turns, tokens, won):
    """A rollout of so many turns, each of so many tokens."""
    return chain(*(0.0,) * (turns - 1), float(won), tokens=(tokens,) * turns)


# T = 5, 10, 20, 30; the first three win, so R^E = 10 / T = 2, 1, .5, and 0 for the failure.
# Mean .875, squares 1.265625 + .015625 + .140625 + .765625 = 2.1875, over 3: root .853913.
# 1.125, .125, -.375 and -.875 of that: 1.3175, .1464, -.4392, -1.0247.
# L = 50, 100, 80, 40: R^S = 10 / L = .2, .1, .125, and 0. Mean .10625, squares .00879 +
# .000039 + .000352 + .011289 = .02047, over 3: root .0826. z = 1.135, -.0757, .227, -1.2863.
GROUP = (played(5, 50, True), played(10, 100, True), played(20, 80, True), played(30, 40, False))  # noqa: FBT003


def first_turns(credit, *trees, evidence=START):
    return [each[0] for each in judged(credit, *trees, evidence=evidence)]


def test_both_advantages_add_up():
    whole = first_turns(Brevity(alpha_initial=0.0, alpha_final=0.0), *GROUP)
    assert whole == pytest.approx([1.3175, 0.1464, -0.4392, -1.0247], abs=1e-4)
    both = first_turns(Brevity(), *GROUP)
    assert both == pytest.approx([1.431, 0.1388, -0.4165, -1.1533], abs=1e-4)
    answers = [(b - w) / 0.1 for b, w in zip(both, whole, strict=True)]
    assert answers == pytest.approx([1.135, -0.0757, 0.227, -1.2863], abs=1e-3)


def test_a_slow_success_can_lose():
    assert first_turns(Brevity(), *GROUP)[2] < 0


def test_they_are_normalised_apart_and_not_added_first():
    # R^E + .1 R^S = 2.02, 1.01, .5125, 0: mean .885625, deviation .8605. Their z is another.
    summed = [2.02, 1.01, 0.5125, 0.0]
    mean = sum(summed) / 4
    spread = math.sqrt(sum((r - mean) ** 2 for r in summed) / 3)
    both = first_turns(Brevity(), *GROUP)
    assert both[0] != pytest.approx((summed[0] - mean) / spread, abs=1e-2)


def test_answers_are_judged_among_those_of_the_same_turn():
    # Of turn 5 on only three rollouts are left, .1, .125 and 0; from turn 20 on, the failure
    # alone, which then has nobody to be compared with.
    whole = first_turns(Brevity(alpha_initial=0.0, alpha_final=0.0), *GROUP)
    found = judged(Brevity(alpha_initial=1.0, alpha_final=1.0), *GROUP, evidence=START)
    spread = math.sqrt((0.025**2 + 0.05**2 + 0.075**2) / 3 * 3 / 2)
    assert [each[5] - w for each, w in zip(found[1:], whole[1:], strict=True)] == pytest.approx(
        [0.025 / spread, 0.05 / spread, -0.075 / spread], abs=1e-3
    )
    assert found[3][20] == whole[3]


def test_or_among_all_of_the_task():
    # Two successes of one and two turns and a failure: 10 / 2 = 5, 10 / 5 = 2 twice, 0.
    # Mean 9/4. By turns: 5, 2, 0 around 7/3, and the 2 alone.
    one, two, lost = played(1, 2, True), played(2, 5, True), played(1, 4, False)  # noqa: FBT003
    plain = {"scale": False, "alpha_initial": 1.0, "alpha_final": 1.0}
    # R^E = 10, 5, 0 around 5.
    assert judged(Brevity("flat", **plain), one, two, lost) == near(
        [[5 + 2.75], [0 - 0.25, 0 - 0.25], [-5 - 2.25]]
    )
    assert judged(Brevity("turn", **plain), one, two, lost) == near(
        [[5 + 8 / 3], [0 - 1 / 3, 0.0], [-5 - 7 / 3]]
    )


@pytest.mark.parametrize("scale", [True, False])
def test_groups_that_agree_give_exactly_nothing(scale):
    credit = Brevity(scale=scale)
    won = [played(3, 7, True)] * 4  # noqa: FBT003
    lost = [played(3, 7, False), played(9, 1, False), played(1, 30, False)]  # noqa: FBT003
    assert judged(credit, *won) == [[0.0] * 3] * 4
    assert judged(credit, *lost) == [[0.0] * 3, [0.0] * 9, [0.0]]


def test_a_short_failure_wins_nothing():
    # Divided or penalised by length, the failure after one turn would stand above the other.
    won, short, long = played(3, 7, True), played(1, 1, False), played(8, 9, False)  # noqa: FBT003
    found = first_turns(Brevity(), won, short, long)
    assert found[1] == found[2] < 0 < found[0]


def test_failures_stay_in_the_mean():
    # Two equal successes and a failure: without the failure there would be no signal.
    won = played(2, 4, True)  # noqa: FBT003
    assert first_turns(Brevity(), won, won, played(2, 4, False))[0] > 0  # noqa: FBT003


def test_alpha_falls_with_progress():
    # From .1 to .05: half-way .075.
    whole = first_turns(Brevity(alpha_initial=0.0, alpha_final=0.0), *GROUP)[0]
    added = [
        first_turns(Brevity(), *GROUP, evidence=Evidence(progress=progress))[0] - whole
        for progress in (0.0, 0.5, 1.0)
    ]
    assert added[1] / added[0] == pytest.approx(0.75)
    assert added[2] / added[0] == pytest.approx(0.5)


def test_success_is_a_score_of_1_or_else_a_return():
    plain = Brevity(scale=False, alpha_initial=0.0, alpha_final=0.0)
    # By score: .9 is none, whatever the return; the score of an earlier turn does not matter.
    assert judged(plain, scored(0.0, 1.0), scored(1.0, 0.9)) == [[2.5, 2.5], [-2.5, -2.5]]
    paid = chain(5.0, scores=(0.9,))
    assert judged(plain, paid, scored(1.0)) == [[-5.0], [5.0]]
    # By return: 1.5 reaches 1, and not 2.
    assert judged(plain, chain(0.5, 1.0), chain(0.0)) == [[2.5, 2.5], [-2.5]]
    harder = Brevity(scale=False, success=2.0)
    assert judged(harder, chain(0.5, 1.0), chain(0.0)) == [[0.0, 0.0], [0.0]]


def test_a_failed_rollout_takes_no_part():
    broken = chain(0.0, end=End.FAILED)
    assert judged(Brevity(), *GROUP[:2], broken)[:2] == judged(Brevity(), *GROUP[:2])
    assert judged(Brevity(), *GROUP[:2], broken)[2] == [None]


def test_the_algorithm():
    algorithm = planpo(group="flat", scale=False)
    assert algorithm == planpo(group="flat", scale=False)
    assert algorithm.credit == Brevity("flat", scale=False)
    assert (algorithm.loss.mean, algorithm.loss.ratio) == (Mean.TURN, Level.TOKEN)
    assert not algorithm.grow.forks
    assert len(algorithm.grow([Group("a")], 0)[0]) == 8


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"reward": 0.0}, "reward: .* got 0"),
        ({"alpha_final": 0.2}, r"alpha_initial, alpha_final: .* got 0\.1 and 0\.2"),
        ({"alpha_initial": 1.1}, r"alpha_initial, alpha_final: .* got 1\.1 and 0\.05"),
        ({"rollouts": 1}, "rollouts: at least 2"),
    ],
)
def test_bad_options_are_refused(options, said):
    with pytest.raises(ValueError, match=said):
        planpo(**options)

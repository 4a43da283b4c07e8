"""TCPO, arXiv:2608.01667: its three terms, worked by hand."""

from dataclasses import replace

import pytest
from tests.golden.told import chain, judged, near, scored

from retrograde.algorithms.fit import obstacles
from retrograde.algorithms.tcpo import tcpo
from retrograde.credit.turn_score import TurnScore, alternatives
from retrograde.data.offer import Offer
from retrograde.data.tree import End, Tree
from retrograde.environments.hop import Hop
from retrograde.losses.policy import Mean
from retrograde.rollouts.counterfactual import Counterfactual

RAW = TurnScore(preserve=1.0, gamma=1.0, normalise=False)
LOOKS_BACK = replace(RAW, hindsight=0.0)
LOOKS_AHEAD = replace(RAW, progress=0.0, preserve=0.0, regression=0.0)

# Scores, the best before each turn, and what they earn with all weights 1 and tau = 1:
#
#   .3 .3 1     0  .3 .3     .3  0   .7
#   .3 .3 .3    0  .3 .3     .3  0   0
#   1  1  .6    0  1  1      1   1  -.4      kept, then lost
#   0  .5 .5    0  0  .5     0   .5  0
FOUR = tuple(
    scored(*scores) for scores in ((0.3, 0.3, 1), (0.3, 0.3, 0.3), (1, 1, 0.6), (0, 0.5, 0.5))
)


def test_looking_back():
    assert judged(LOOKS_BACK, *FOUR) == near(
        [[0.3, 0, 0.7], [0.3, 0, 0], [1, 1, -0.4], [0, 0.5, 0]]
    )


def test_looking_ahead():
    # Without progress and before success: turn 1 of 1 and 2, turn 2 of 2 and 4, and turn 0 of 4,
    # which has no peer there. Turn 1: best from there on 1 and .3: .7 and -.7. Turn 2: .3 and .5.
    assert judged(LOOKS_AHEAD, *FOUR) == near(
        [[0, 0.7, 0], [0, -0.7, -0.2], [0, 0, 0], [0, 0, 0.2]]
    )


def test_both_add_up():
    assert judged(RAW, *FOUR) == near(
        [[0.3, 0.7, 0.7], [0.3, -0.7, -0.2], [1, 1, -0.4], [0, 0.5, 0.2]]
    )
    half = replace(RAW, hindsight=0.5)
    assert judged(half, *FOUR)[1] == near([[0.3, -0.35, -0.1]])[0]


def test_weights():
    weighed = TurnScore(2.0, 0.2, 3.0, 0.0, gamma=1.0, normalise=False)
    assert judged(weighed, *FOUR)[2] == near([[2.0, 0.2, -1.2]])[0]


def test_oscillation_earns_once():
    # Score differences would earn 1, -1, 1. Losing costs 1, and coming back is what was there.
    assert judged(LOOKS_BACK, scored(1, 0, 1), FOUR[0])[0] == near([[1, -1, 1]])[0]
    kept = replace(LOOKS_BACK, preserve=0.0)
    assert judged(kept, scored(1, 0, 1), FOUR[0])[0] == near([[1, -1, 0]])[0]


def test_a_drop_before_success_costs_nothing_and_a_new_best_counts_from_the_old_one():
    assert judged(LOOKS_BACK, scored(0.5, 0.2, 0.6), FOUR[0])[0] == near([[0.5, 0, 0.1]])[0]
    # With a threshold of .5 the drop is a loss.
    early = replace(LOOKS_BACK, threshold=0.5)
    assert judged(early, scored(0.5, 0.2, 0.6), FOUR[0])[0] == near([[0.5, -0.3, 0.1]])[0]


def test_keeping_a_success_is_worth_something():
    assert judged(LOOKS_BACK, scored(1, 1), scored(1, 1))[0] == [1.0, 1.0]


def test_hindsight_leaves_itself_out_of_the_mean():
    # Best ahead 1, .4, 0 at turn 0: 1 - .2, .4 - .5, 0 - .7. With itself: around .4667.
    three = scored(0, 1), scored(0, 0.4), scored(0, 0)
    assert [each[0] for each in judged(LOOKS_AHEAD, *three)] == pytest.approx([0.8, -0.1, -0.7])


def test_z_scores_at_the_same_turn():
    # Turn 0: .3, .3, 1, 0 around .4: -.1, -.1, .6, -.4, variance .54 / 3 = .18, root .42426.
    # Turn 1: .7, -.7, 1, .5 around .375. gamma .9 for each turn before.
    found = judged(TurnScore(preserve=1.0), *FOUR)
    assert [each[0] for each in found] == pytest.approx(
        [-0.2357, -0.2357, 1.4142, -0.9428], abs=1e-4
    )
    # .325, -1.075, .625, .125: squares 1.6675, over 3: root .74554.
    assert [each[1] for each in found] == pytest.approx(
        [0.9 * d / 0.74554 for d in (0.325, -1.075, 0.625, 0.125)], abs=1e-4
    )
    assert found[0][2] / judged(TurnScore(preserve=1.0, gamma=1.0), *FOUR)[0][2] == pytest.approx(
        0.81
    )


def test_a_turn_that_nobody_else_has_keeps_its_raw_credit():
    # Turn 1 is the first rollout's alone: .7 raw, times gamma.
    assert judged(TurnScore(), scored(0.3, 1.0), scored(0.3)) == near([[0.0, 0.63], [0.0]])


def test_turns_that_agree_give_exactly_nothing():
    # .3 - .1 and .2 differ in the last place.
    assert 0.3 - 0.1 != 0.2
    same = scored(0.1, 0.3), scored(0.1, 0.3)
    assert judged(TurnScore(), *same) == [[0.0, 0.0]] * 2
    assert judged(TurnScore(hindsight=0.0), scored(0.1, 0.3), scored(0.0, 0.2)) == [
        [pytest.approx(0.7071, abs=1e-3), 0.0],
        [pytest.approx(-0.7071, abs=1e-3), 0.0],
    ]


# Two answers more to turn 1 of the first rollout, which scored .3, and a third that broke:
#
#   0 (.3) ─┬─ 1 (.3) ─── 2 (1)
#           ├─ 3 (.5)               .3 - (.5 + 0) / 2 = .05
#           ├─ 4 (0)
#           └─ 5 failed
TRUNK = FOUR[0].turns
ASKED = Tree(
    (
        *TRUNK,
        replace(TRUNK[1], grown_in=1, score=0.5, end=End.STOPPED),
        replace(TRUNK[1], grown_in=1, score=0.0, end=End.FINISHED),
        replace(TRUNK[1], grown_in=1, score=None, end=End.FAILED),
    )
)


def test_against_other_answers_to_the_same_past():
    assert alternatives(ASKED, 1) == [0.5, 0.0]
    assert alternatives(ASKED, 0) == alternatives(ASKED, 2) == []
    found = judged(RAW, ASKED, *FOUR[1:])
    # Visits path by path: the rollout, then the alternatives, which do not train.
    assert found[0] == near([[0.3, 0.75, 0.7, *[None] * 6]])[0]
    assert found[1:] == judged(RAW, *FOUR)[1:]
    weighed = judged(replace(RAW, counterfactual=2.0), ASKED, *FOUR[1:])
    assert weighed[0][1] == pytest.approx(0.8)


def test_alternatives_are_in_no_other_rollouts_baseline():
    # Turn 1 of the second rollout stands against the first rollout's alone: .3 - 1.
    found = judged(RAW, ASKED, FOUR[1])
    assert found[1][1] == pytest.approx(-0.7)


def test_alternatives_that_all_broke_leave_the_turn_as_it_was():
    broken = Tree((*TRUNK, replace(TRUNK[1], grown_in=1, score=None, end=End.FAILED)))
    assert judged(RAW, broken, *FOUR[1:])[0][:3] == judged(RAW, *FOUR)[0]


def test_a_failed_rollout_takes_no_part_and_a_missing_score_is_named():
    failed = chain(0.0, scores=(None,), end=End.FAILED)
    assert judged(TurnScore(), *FOUR, failed) == [*judged(TurnScore(), *FOUR), [None]]
    with pytest.raises(ValueError, match="a score for each turn is needed, turn 0 has none"):
        judged(TurnScore(), chain(0.0))


def test_the_algorithm():
    algorithm = tcpo(rollouts=4, selected=3, alternatives=2, preserve=0.5, gamma=0.8)
    assert algorithm == tcpo(rollouts=4, selected=3, alternatives=2, preserve=0.5, gamma=0.8)
    assert algorithm.grow == Counterfactual(4, 3, 2)
    assert algorithm.credit == TurnScore(preserve=0.5, gamma=0.8)
    assert algorithm.loss.mean is Mean.TOKEN
    assert algorithm.needs == (Offer.SCORES,)
    assert tcpo().grow.forks
    assert not tcpo(alternatives=0).grow.forks
    assert obstacles(tcpo(), Hop()) == []
    silent = type("Silent", (Hop,), {"offers": frozenset()})()
    assert "a score in [0, 1]" in obstacles(tcpo(), silent)[0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"progress": -1.0}, r"progress: a weight .* got -1"),
        ({"counterfactual": float("nan")}, "counterfactual: a weight .* got nan"),
        ({"threshold": 0.0}, r"threshold: .* got 0\.0"),
        ({"gamma": 0.0}, r"gamma: .* got 0\.0"),
        ({"selected": -1}, "selected: at least 0"),
    ],
)
def test_bad_options_are_refused(options, said):
    with pytest.raises(ValueError, match=said):
        tcpo(**options)

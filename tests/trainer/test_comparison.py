"""The numbers of a comparison, by hand."""

import json
from dataclasses import replace
from itertools import product
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrograde.trainer.comparison import (
    METRICS,
    Interval,
    Method,
    Outcome,
    Point,
    Trial,
    area,
    bootstrap,
    chosen_rate,
    comparison_record,
    curve_of,
    differences,
    methods_of,
    outcome_of,
    summary,
    zero_advantage_share,
)


def curve(*points):
    """Points at (tokens, success)."""
    return tuple(Point(tokens, tokens // 10, tokens / 100, y, y) for tokens, y in points)


def finished(seed, final, auc=0.5, **figures):
    return Outcome(seed, "finished", final_success=final, auc=auc, **figures)


def test_the_area_is_that_of_trapezia_divided_by_the_budget():
    # 0 to 100: (0 + 0.5) / 2 * 100 = 25. 100 to 400: (0.5 + 1) / 2 * 300 = 225. 250 / 400.
    assert area(curve((0, 0.0), (100, 0.5), (400, 1.0)), "tokens", 400) == pytest.approx(0.625)


def test_what_was_used_beyond_the_budget_earns_nothing():
    # The line from (100, 0.5) to (300, 0.9) is at 0.7 at the budget of 200:
    # (0.1 + 0.5) / 2 * 100 = 30, (0.5 + 0.7) / 2 * 100 = 60, 90 / 200.
    ends_late = curve((0, 0.1), (100, 0.5), (300, 0.9))
    assert area(ends_late, "tokens", 200) == pytest.approx(0.45)
    assert area((*ends_late, *curve((400, 0.0))), "tokens", 200) == pytest.approx(0.45)


def test_a_curve_that_ends_early_goes_on_level():
    # 0 to 100: 25; 100 to 200 at 0.5: 50.
    assert area(curve((0, 0.0), (100, 0.5)), "tokens", 200) == pytest.approx(0.375)


def test_the_area_is_over_what_the_budget_counts():
    points = (Point(0, 0, 0.0, 0.0, 0.0), Point(100, 30, 2.0, 1.0, 1.0))
    assert area(points, "tokens", 100) == pytest.approx(0.5)
    assert area(points, "turns", 15) == pytest.approx(0.25)  # up to 0.5, half of that
    assert area(points, "seconds", 4.0) == pytest.approx(0.75)  # 1 of 2, then 2 of 2


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=6),
    st.integers(1, 1000),
)
def test_an_area_is_a_mean_of_successes(heights, budget):
    points = curve(*((i * 100, y) for i, y in enumerate(heights)))
    assert min(heights) - 1e-9 <= area(points, "tokens", budget) <= max(heights) + 1e-9


def test_one_seed_has_no_spread():
    assert bootstrap([0.7]) == Interval(0.7, 0.7, 0.7)


def test_two_seeds_spread_to_their_ends():
    # Means of 2 draws: 0 and 1 with 1/4 each, 1/2 with 1/2; both ends are beyond 2.5 %.
    assert bootstrap([0.0, 1.0]) == Interval(0.5, 0.0, 1.0)


def test_the_interval_is_that_of_all_resamples():
    # All 6^6 = 46656 resamples, sorted. Means are multiples of 1/60, and 10,000 draws find their
    # percentiles to within one such step.
    values = [0.1, 0.2, 0.4, 0.5, 0.9, 1.0]
    means = sorted(fmean(drawn) for drawn in product(values, repeat=6))
    found = bootstrap(values)
    assert found.mean == pytest.approx(fmean(values))
    assert found.low == pytest.approx(means[round(0.025 * len(means))], abs=0.017)
    assert found.high == pytest.approx(means[round(0.975 * len(means))], abs=0.017)
    assert bootstrap(values) == found  # the same draws each time


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=8), st.floats(-5, 5))
def test_an_interval_holds_its_mean_and_moves_with_the_values(values, shift):
    found, moved = bootstrap(values), bootstrap([value + shift for value in values])
    assert found.low - 1e-9 <= found.mean <= found.high + 1e-9
    assert moved.low == pytest.approx(found.low + shift, abs=1e-6)


LINES = [
    {
        "step": 0, "tokens/generated": 0, "env/steps": 0, "wall_seconds": 3.0,
        "training_seconds": 0.75, "eval/success": 0.1, "eval/success_greedy": 0.2,
    },
    {
        "step": 1, "tokens/generated": 60, "env/steps": 6, "wall_seconds": 4.0,
        "training_seconds": 1.5,
        "rows": 10.0, "rows/zero_advantage": 0.9, "update/steps": 3,
    },
    {
        "step": 2, "tokens/generated": 120, "env/steps": 12, "wall_seconds": 7.0,
        "training_seconds": 3.5, "eval/success": 0.6, "eval/success_greedy": 0.7,
        "rows": 30.0, "rows/zero_advantage": 0.1, "update/steps": 2,
    },
    {
        "step": 3, "tokens/generated": 130, "env/steps": 14, "wall_seconds": 9.0,
        "training_seconds": 4.5, "eval/success": 0.5, "eval/success_greedy": 0.9,
        "update/skipped": 1,
    },
]  # fmt: skip


def test_a_run_is_read_from_its_metrics():
    found = outcome_of(7, LINES, "tokens", 120)
    assert found.curve == (
        Point(0, 0, 0.75, 0.1, 0.2),
        Point(120, 12, 3.5, 0.6, 0.7),
        Point(130, 14, 4.5, 0.5, 0.9),
    )
    assert (found.seed, found.status, found.error) == (7, "finished", None)
    assert (found.final_success, found.best_success) == (0.5, 0.6)
    assert found.auc == pytest.approx(0.35)
    assert (found.tokens, found.env_steps, found.optimizer_steps) == (130, 14, 5)
    assert (found.training_seconds, found.wall_seconds) == (4.5, 9.0)
    # 3 steps on 10 rows, 2 on 30: (30 * 0.9 + 60 * 0.1) / 90. A plain mean would give 0.5.
    assert found.zero_advantage_share == pytest.approx(33 / 90)


def test_a_run_that_learned_nothing_has_no_share():
    assert zero_advantage_share(LINES[:1]) is None


@pytest.mark.parametrize("lines", [[], LINES[:2]])
def test_a_run_without_a_last_evaluation_has_no_final_success(lines):
    with pytest.raises(ValueError, match="do not end with an evaluation"):
        outcome_of(0, lines, "tokens", 120)
    assert len(curve_of(lines)) == bool(lines)


def test_differences_are_taken_seed_by_seed():
    # Each method spreads by 0.8, the differences by nothing: 0.1 in both seeds.
    mine = [finished(0, 0.1), finished(1, 0.9), finished(2, 0.5)]
    theirs = [finished(1, 0.8), finished(0, 0.0), Outcome(2, "failed", error="burnt")]
    found = differences(mine, theirs)["final_success"]
    assert found is not None
    assert (found.mean, found.low, found.high) == pytest.approx((0.1, 0.1, 0.1))
    assert differences(mine[2:], theirs)["final_success"] is None  # no seed in common


def test_a_failed_run_is_no_zero():
    found = summary([finished(0, 0.6), Outcome(1, "failed", error="burnt")])
    assert found.keys() == set(METRICS)
    assert found["final_success"] == Interval(0.6, 0.6, 0.6)
    assert found["tokens"] is None


def trials(*found):
    """(rate, seed, final success, area) each."""
    return [Trial(rate, finished(seed, y, auc)) for rate, seed, y, auc in found]


@pytest.mark.parametrize(
    ("tried", "best"),
    [
        (trials((1e-4, 0, 0.2, 0.9), (1e-3, 0, 0.3, 0.1)), 1e-3),
        # The mean over seeds counts, not the best seed: 0.45 against 0.5.
        (trials((1e-4, 0, 0.9, 0), (1e-4, 1, 0.0, 0), (1e-3, 0, 0.5, 0), (1e-3, 1, 0.5, 0)), 1e-3),
        (trials((1e-4, 0, 0.5, 0.2), (1e-3, 0, 0.5, 0.3)), 1e-3),  # a tie: by area
        (trials((1e-3, 0, 0.5, 0.3), (1e-4, 0, 0.5, 0.3)), 1e-4),  # a tie in all: the smallest
        ([*trials((1e-4, 0, 0.2, 0)), Trial(1e-3, Outcome(0, "failed", error="nan"))], 1e-4),
    ],
)
def test_the_best_rate_is_chosen(tried, best):
    assert chosen_rate(tried) == best


def test_no_rate_is_chosen_where_every_one_failed():
    tried = [Trial(rate, Outcome(0, "failed", error="nan")) for rate in (1e-3, 1e-4)]
    with pytest.raises(ValueError, match=r"every learning rate .*\(0.0001, 0.001\)"):
        chosen_rate(tried)


def test_what_is_recorded_can_be_read_back():
    mine = Method("a:x=1", "a", {"x": "1"}, 0.1, tuple(trials((0.1, 1000, 0.5, 0.5))))
    theirs = Method("b", "b", {}, None)
    for seed in (1, 0):
        mine = mine.having(outcome_of(seed, LINES, "tokens", 120))
    mine = mine.having(replace(mine.runs[0], final_success=0.7))  # in place of the one of seed 0
    record = json.loads(json.dumps(comparison_record({"s": 1}, {"cpu": "x"}, [mine, theirs], "b")))
    assert methods_of(record) == [mine, theirs]
    assert [run["seed"] for run in record["methods"][0]["runs"]] == [0, 1]
    first, second = record["methods"]
    assert first["summary"]["final_success"]["mean"] == pytest.approx(0.6)
    assert first["difference"]["final_success"] is None
    assert second["difference"] is None  # the baseline's
    assert record["settings"] == {"s": 1}

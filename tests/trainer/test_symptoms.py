"""What goes wrong in a run is said aloud and once, and nothing is said of a run that does well."""

import json

import pytest

from retrograde.cli.panel import Panel
from retrograde.trainer.run import Run, State
from retrograde.trainer.symptoms import SYMPTOMS, Watch

from .healthy import LAKE, METRICS

WELL = {
    "step": 1, "rollouts/grown": 100.0, "update/steps": 4.0, "reward/max": 1.0, "entropy": 0.4,
    "kl": 0.001, "completions/clipped_ratio": 0.0, "sampling/logp_difference/mean": 1e-7,
    "rollouts/most_repeated": 0.03, "rollouts/ended/finished": 90.0,
    "rollouts/ended/truncated": 10.0,
}  # fmt: skip
ILL = {
    # 60 of 100 rollouts truncated, with 5 failed of 105: 57 % and 4.8 %
    "answers cut off": ({"completions/clipped_ratio": 0.97}, "97% of the answers ran out of tok"),
    "rollouts truncated": (
        {"rollouts/ended/finished": 40.0, "rollouts/ended/truncated": 60.0,
         "rollouts/ended/failed": 5.0},
        "57% of the rollouts were cut off",
    ),
    # 6 of 106
    "environment failures": ({"rollouts/ended/failed": 6.0}, "failed in 5.7% of the rollouts"),
    "no signal": ({"update/steps": 0.0, "update/skipped": 1.0}, "no group had anything to learn"),
    "never rewarded": ({"reward/max": 0.0}, "no rollout has earned more than 0"),
    "sampler and learner apart": (
        {"sampling/logp_difference/mean": 0.08}, "disagree by 0.080 nats a token",
    ),
    "updates too far": ({"kl": 0.25}, "leads 0.25 nats a token"),
    "entropy rising": ({"entropy": 1.3}, "the entropy has risen from 0.40 to 1.30"),
    "one rollout repeated": ({"rollouts/most_repeated": 0.9}, "90% of the rollouts are the same"),
}  # fmt: skip
LASTS = {symptom.name: symptom.lasts for symptom in SYMPTOMS}


def said(lines):
    watch = Watch()
    return [watch.warnings({"step": n, **line}) for n, line in enumerate(lines, 1)]


def test_each_symptom_is_tested():
    assert ILL.keys() == LASTS.keys()


@pytest.mark.parametrize("name", ILL)
def test_a_symptom_that_lasts_is_said_once(name):
    change, text = ILL[name]
    ill = {k: v for k, v in (WELL | change).items() if k != "step"}
    well = {k: v for k, v in WELL.items() if k != "step"}
    # A policy that was rewarded before is no longer one that never was.
    before = [] if name == "never rewarded" else [well] * 3
    heard = said([*before, *[ill] * 8, *before, *[ill] * 8])
    at = len(before) + LASTS[name] - 1
    assert [bool(texts) for texts in heard] == [n == at for n in range(len(heard))]
    (only,) = heard[at]
    assert text in only
    assert "--" in only or "Try" in only or "doctor" in only  # it says what to try


@pytest.mark.parametrize("name", ILL)
def test_a_symptom_that_comes_and_goes_is_not_said(name):
    change, _ = ILL[name]
    lasts = LASTS[name] - 1
    assert not any(said([*[WELL] * 3, *([*[WELL | change] * lasts, WELL] * 4)]))


def test_nothing_is_said_of_a_reward_that_once_came():
    none = {**WELL, "reward/max": 0.0}
    assert not any(said([WELL, *[none] * 20]))
    assert any(said([none] * 20))


def test_thresholds_are_passed_not_met():
    for change in (
        {"completions/clipped_ratio": 0.5},
        {"rollouts/ended/finished": 50.0, "rollouts/ended/truncated": 50.0},
        {"rollouts/ended/finished": 85.0, "rollouts/ended/failed": 5.0},
        {"sampling/logp_difference/mean": 0.05},
        {"kl": 0.1},
        {"entropy": 0.85},  # over twice, and by less than half a nat
        {"rollouts/most_repeated": 0.8},
        {"rollouts/most_repeated": 0.9, "rollouts/grown": 7.0},
    ):
        assert not any(said([*[WELL] * 3, *[WELL | change] * 9])), change


def test_lines_without_rollouts_do_not_count():
    """Such a line is that of the evaluation before the first iteration."""
    watch = Watch()
    ill = WELL | ILL["updates too far"][0]
    assert [bool(watch.warnings(line)) for line in ({"step": 0}, ill, ill, {"step": 0}, ill)] == [
        False, False, False, False, True,
    ]  # fmt: skip


def test_nothing_is_said_of_real_runs_that_did_well():
    """What `retrograde train` wrote on the default task, and on lake, where success is noisier."""
    for lines in (METRICS, LAKE):
        watch = Watch()
        assert not any(watch.warnings(json.loads(line)) for line in lines)
        assert json.loads(lines[-1])["eval/success"] > 0.8


@pytest.mark.parametrize("quiet", [False, True])
def test_the_panel_says_it_also_where_it_is_to_be_quiet(quiet, capsys):
    with Panel("x", Run(steps=9), quiet=quiet) as panel:
        for step in range(1, 6):
            panel.show(State(step), "done", WELL | {"completions/clipped_ratio": 0.8})
    assert capsys.readouterr().err.count("warning: 80% of the answers ran out of tokens") == 1


def test_a_resumed_run_does_not_say_again_what_was_said(capsys):
    ill = WELL | {"completions/clipped_ratio": 0.8}
    with Panel("x", Run(steps=9), quiet=False) as panel:
        panel.go_on([ill] * 5)
        panel.show(State(6), "done", ill)
    assert "warning" not in capsys.readouterr().err


def test_a_skipped_update_is_in_the_plain_lines(capsys):
    with Panel("x", Run(steps=9), quiet=False) as panel:
        panel.show(State(1), "done", WELL | {"update/skipped": 2.0})
        panel.show(State(2), "done", WELL)
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith("2 updates skipped")
    assert "skipped" not in second

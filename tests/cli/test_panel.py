"""The live panel, seen as text."""

import io
import json

import pytest
from rich.console import Console

from retrograde.cli.panel import Pace, Panel, clock
from retrograde.data.tree import End
from retrograde.rollouts.progress import Ended, Progress
from retrograde.trainer.run import Run, State

FIRST = {"step": 0, "tokens/generated": 0.0, "eval/success": 0.16, "eval/success_greedy": 0.7}
SECOND = {
    "step": 1, "tokens/generated": 9000.0, "reward/mean": 0.53, "eval/success": 0.71,
    "eval/success_greedy": 0.9, "seconds/sampling": 2.0, "seconds/learning": 1.0,
    "seconds/evaluating": 50.0, "completions/clipped_ratio": 0.6, "clip_ratio": 0.004,
}  # fmt: skip


def terminal():
    return Console(file=io.StringIO(), force_terminal=True, width=100, color_system=None)


def shown(panel):
    console = Console(record=True, width=100, file=io.StringIO())
    console.print(panel.drawn())
    return console.export_text()


def test_it_says_where_a_run_stands():
    with Panel("a title", Run(steps=4), quiet=False, turn_limit=8, console=terminal()) as panel:
        panel.show(State(), "done", FIRST)
        panel.show(State(step=2, env_steps=1234, tokens=9000), "done", SECOND)
        panel.grown(Progress(2, 3, 64, Ended(End.FINISHED, 1.0, 4)))
        text = shown(panel)
    assert "a title" in text
    assert "sampling: round 2, turn 3 of 8, 64 rollouts under way" in text
    assert "50%" in text
    assert "1,234 turns" in text
    assert "3,000 tokens/s" in text  # 9000 over 2 + 1 seconds; evaluation is not generation
    assert "0.710 now, 0.160 at first   greedy 0.900" in text
    assert "0.530" in text
    assert "finished, earned 1 in 4 turns" in text
    assert "answers cut off 60%" in text
    assert "tokens clipped" not in text  # 0.4 % is no news


def test_the_last_outcome_stays_until_there_is_another():
    panel = Panel("x", Run(steps=4), quiet=True)
    panel.grown(Progress(0, 2, 1, Ended(End.FAILED, 0.0, 1)))
    panel.grown(Progress(1, 1, 2, None))
    assert "failed, earned 0 in 1 turn " in shown(panel)
    assert "round 1, turn 1, 2 rollouts" in shown(panel)


@pytest.mark.parametrize("begun_at", [0.0, 0.5])
def test_the_time_left_is_right_at_once_after_a_resumption(begun_at, monkeypatch):
    # From begun_at to begun_at + 1/4 in 30 s: the rest, 1 - begun_at - 1/4, takes 120 s a whole.
    now = 100.0
    monkeypatch.setattr("retrograde.cli.panel.time.monotonic", lambda: now)
    pace = Pace()
    pace.see(begun_at, "evaluating")  # no part of the pace
    now = 150.0
    pace.see(begun_at, "sampling")
    assert pace.left(begun_at) is None
    now = 180.0
    pace.see(begun_at + 0.25, "learning")
    assert pace.left(begun_at + 0.25) == pytest.approx(120.0 * (0.75 - begun_at))


def test_what_a_resumed_run_had_come_to_is_remembered():
    panel = Panel("x", Run(steps=4), quiet=True)
    panel.go_on([FIRST, SECOND])
    assert "0.710 now, 0.160 at first" in shown(panel)


def test_durations():
    assert [clock(s) for s in (0.4, 59.4, 84, 3599, 7260)] == [
        "0 s", "59 s", "1 min 24 s", "59 min 59 s", "2 h 01 min",
    ]  # fmt: skip


def test_plain_lines_without_a_terminal(capsys):
    with Panel("x", Run(steps=4), quiet=False, console=Console(file=io.StringIO())) as panel:
        panel.grown(Progress(0, 1, 2, None))
        panel.show(State(step=1, env_steps=10, seconds=2.0), "done", SECOND)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == (
        "step   1      10 turns     2.0 s  reward 0.530  held-out success 0.710 (greedy 0.900)\n"
    )


def test_with_json_there_is_an_object_a_line_and_nothing_else(capsys):
    grown = {"rollouts/grown": 64.0, "reward/max": 1.0}
    with Panel("x", Run(steps=9), quiet=False, as_json=True, console=terminal()) as panel:
        panel.progress("warm start", 0.5)
        for step in range(1, 10):
            panel.show(State(step=step), "done", SECOND | grown | {"step": step})
    said = capsys.readouterr()
    lines = [json.loads(line) for line in said.out.splitlines()]
    assert said.err == ""
    assert lines[0] == {"event": "step", **SECOND, **grown}
    assert [line["step"] for line in lines if line["event"] == "step"] == list(range(1, 10))
    warnings = [line["text"] for line in lines if line["event"] == "warning"]
    assert sum("60% of the answers" in text for text in warnings) == 1  # said once

"""What is kept of a run can be read by anybody, and is what happened."""

import json

import pytest

from retrograde.data.stored import Scribe
from retrograde.data.tree import ROOT_PARENT, End, Group, Tree, Turn
from retrograde.trainer.journal import DiskJournal
from retrograde.trainer.run import State


def rollout(reward, turns=1, end=End.FINISHED):
    return Tree(
        tuple(
            Turn(
                parent=i - 1 if i else ROOT_PARENT,
                shared=0,
                fresh=(1,),
                observation=(1,),
                action=(2,),
                logprobs=(-1.0,),
                grown_in=0,
                policy_version=0,
                reward=reward if i == turns - 1 else 0.0,
                end=end if i == turns - 1 else None,
            )
            for i in range(turns)
        )
    )


GROUPS = [
    Group("a", (rollout(1.0, 3), rollout(0.0, 1))),
    Group("b", (rollout(1.0, 2), rollout(1.0, 2))),
    Group("c", (rollout(1.0), rollout(0.0, end=End.FAILED))),
]


@pytest.fixture
def shown():
    return []


def won(tree, leaf):
    return tree.returns[leaf] >= 1


def opened(folder, shown=None, state=None, **options):
    def show(state, what, line):
        if shown is not None:
            shown.append((what, line))

    options = {"keep_rollouts": 2} | options
    scribe = Scribe(lambda ids: " ".join(map(str, ids)))
    return DiskJournal(folder, state or State(), show, scribe, won, **options)


def lines(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_a_line_holds_the_figures_of_its_iteration(tmp_path, shown):
    journal = opened(tmp_path, shown)
    journal.doing("sampling round 0")
    for figures in ({"policy_loss": 1.0, "ratio/error_max": 0.5}, {"policy_loss": 3.0}):
        journal.add(figures)
    journal.add({"ratio/error_max": 0.25, "grad_norm": 2.0})
    journal.count("update/steps")
    journal.count("update/steps")
    for name, number in {"turns": 10, "tokens": 40, "context_tokens": 200, "unstopped": 1}.items():
        journal.count(f"rollouts/{name}", number)
    journal.close_step(State(3, 5, 100, 400), GROUPS, {"eval/success": 0.5})
    (line,) = lines(tmp_path)
    assert line["step"] == 3
    assert line["policy_version"] == 5
    assert (line["env/steps"], line["tokens/generated"]) == (100, 400)
    assert line["policy_loss"] == 2.0  # a mean
    assert line["ratio/error_max"] == 0.5  # the largest
    assert line["grad_norm"] == 2.0
    assert line["update/steps"] == 2
    assert line["completions/mean_length"] == 4.0
    assert line["prompts/mean_length"] == 20.0
    assert line["completions/clipped_ratio"] == 0.1
    assert line["eval/success"] == 0.5
    assert line["reward/mean"] == 0.8  # of five; the failed one is no zero
    assert line["frac_reward_zero_std"] == pytest.approx(2 / 3)
    assert line["num_turns/mean"] == pytest.approx(10 / 6)
    assert line["rollouts/grown"] == 6
    assert line["wall_seconds"] >= 0
    assert line["training_seconds"] >= 0
    assert "seconds/sampling" in line
    assert shown[-1] == ("done", line)


def test_the_next_line_starts_from_nothing(tmp_path):
    journal = opened(tmp_path)
    journal.add({"policy_loss": 1.0})
    journal.count("update/steps")
    journal.close_step(State(1), GROUPS, None)
    journal.close_step(State(2), GROUPS, None)
    _, line = lines(tmp_path)
    assert not {"policy_loss", "update/steps", "eval/success"} & line.keys()


def test_lines_of_iterations_that_are_done_again_are_dropped(tmp_path):
    journal = opened(tmp_path)
    for step in range(5):
        journal.close_step(State(step), [], None)
    opened(tmp_path, state=State(3))
    assert [line["step"] for line in lines(tmp_path)] == [0, 1, 2, 3]
    opened(tmp_path, state=State(0))  # it evaluates again before its first iteration
    assert lines(tmp_path) == []


def test_a_line_that_was_cut_off_by_a_kill_is_dropped(tmp_path):
    journal = opened(tmp_path)
    for step in range(3):
        journal.close_step(State(step), [], None)
    path = tmp_path / "metrics.jsonl"
    path.write_text(path.read_text() + '{"step": 3, "pol')
    opened(tmp_path, state=State(2))
    assert [line["step"] for line in lines(tmp_path)] == [0, 1, 2]


def test_an_iteration_without_valid_rollouts_can_be_written(tmp_path):
    journal = opened(tmp_path)
    journal.close_step(State(1), [Group("a", (rollout(0.0, end=End.FAILED),))], None)
    assert lines(tmp_path)[0]["reward/mean"] == 0.0


def test_evaluations_are_no_training_and_the_budgets_clock_waits_for_the_next_iteration(
    tmp_path, monkeypatch
):
    clock = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    state = State()
    journal = opened(tmp_path, state=state)

    def passed(seconds):
        clock[0] += seconds

    passed(1)
    journal.doing("evaluating")
    passed(10)
    journal.close_step(state, [], {"eval/success": 0.5})
    assert (state.seconds, state.training_seconds) == (11.0, 1.0)
    journal.doing("sampling round 0")
    passed(2)
    journal.doing("learning")
    passed(4)
    journal.count("update/steps", 8)
    assert state.training_seconds == 7.0
    passed(0.5)  # whether the run is over has been asked by now
    state.step = 1
    journal.close_step(state, [], None)
    assert (state.seconds, state.training_seconds) == (17.5, 7.0)
    journal.doing("sampling round 0")
    assert state.training_seconds == 7.5

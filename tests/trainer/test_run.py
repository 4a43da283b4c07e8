"""Settings of a run, and where it stands."""

import pytest

from retrograde.data.tree import ROOT_PARENT, End, Group, Tree, Turn
from retrograde.trainer.run import EVALUATIONS, Run, State


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"steps": -1}, "steps: at least 0 is needed, got -1"),
        ({"max_env_steps": 0}, "max_env_steps: at least 1"),
        ({"max_tokens": 0}, "max_tokens: at least 1 is needed, got 0"),
        ({"max_seconds": 0.0}, "max_seconds: a number above 0 is needed, got 0.0"),
        ({"max_seconds": float("inf")}, "max_seconds: a number above 0"),
        ({"prompts": 0}, "prompts: at least 1"),
        ({"eval_every": -1}, "eval_every: at least 0"),
        ({"eval_episodes": 0}, "eval_episodes: at least 1"),
        ({"save_every": 0}, "save_every: at least 1"),
        ({"keep_checkpoints": 0}, "keep_checkpoints: at least 1"),
        ({"keep_rollouts": -2}, "keep_rollouts: at least -1"),
        ({"max_tokens_per_microbatch": 0}, "max_tokens_per_microbatch: at least 1"),
        ({"temperature": 0.0}, "temperature: a number above 0 is needed, got 0.0"),
        ({"temperature": float("nan")}, "temperature"),
        ({"turn_seconds": 0.0}, "turn_seconds"),
        ({"weight_decay": -0.1}, "weight_decay: at least 0"),
        ({"weight_decay": float("nan")}, "weight_decay: at least 0"),
    ],
)
def test_values_out_of_range_are_refused_by_name(options, said):
    with pytest.raises(ValueError, match=said):
        Run(**options)


def test_a_run_is_over_when_either_budget_is_used_up():
    run = Run(steps=3, max_env_steps=100)
    assert not run.is_over(State(step=2, env_steps=99))
    assert run.is_over(State(step=3, env_steps=0))
    assert run.is_over(State(step=0, env_steps=100))
    assert Run(steps=0).is_over(State())
    assert not Run().is_over(State(step=10**6))


def test_the_share_done_is_that_of_the_budget_nearer_its_end():
    run = Run(steps=10, max_env_steps=100)
    assert run.share_done(State(step=2, env_steps=50)) == 0.5
    assert run.share_done(State(step=8, env_steps=50)) == 0.8
    assert run.share_done(State(step=20)) == 1.0
    assert Run().share_done(State(step=20)) == 0.0


def test_tokens_and_seconds_are_budgets_too():
    tokens, seconds = Run(max_tokens=1000), Run(max_seconds=2.5)
    assert not tokens.is_over(State(tokens=999, env_steps=10**6))
    assert tokens.is_over(State(tokens=1000))
    assert tokens.share_done(State(tokens=250)) == 0.25
    # Evaluations count in `seconds`, not in `training_seconds`.
    assert not seconds.is_over(State(seconds=99.0, training_seconds=2.4))
    assert seconds.is_over(State(seconds=2.6, training_seconds=2.5))
    assert seconds.share_done(State(training_seconds=0.5)) == 0.2


def test_a_run_without_any_budget_is_open_ended():
    assert Run().is_open_ended
    for budget in ("steps", "max_env_steps", "max_tokens", "max_seconds"):
        assert not Run(**{budget: 1}).is_open_ended


@pytest.mark.parametrize("steps", [1, 4, 6, 7, 30, 100])
def test_about_six_evaluations_are_spread_over_a_run(steps):
    run, due, before = Run(steps=steps), [], 0.0
    for step in range(1, steps + 1):
        state = State(step=step)
        if run.is_evaluation_due(state, before):
            due.append(step)
        before = run.share_done(state)
    assert due[-1] == steps
    assert len(due) == min(steps, EVALUATIONS)
    gaps = [b - a for a, b in zip([0, *due], due, strict=False)]
    assert max(gaps) - min(gaps) <= 1


def test_evaluations_can_be_asked_for():
    every_two, ends_only = Run(steps=5, eval_every=2), Run(steps=5, eval_every=0)

    def due(run):
        return [s for s in range(1, 6) if run.is_evaluation_due(State(step=s), 0.0)]

    assert due(every_two) == [2, 4, 5]
    assert due(ends_only) == [5]


def test_turns_left_under_a_budget_of_tokens_are_reckoned_from_those_so_far():
    # 1,000 tokens, of which 400 went into 100 turns: 600 left are 150 turns, less 2 grown now.
    turn = Turn(ROOT_PARENT, 0, (1,), (1,), (2,), (-0.5,), 0, 0, 0.0, End.FINISHED)
    grown = [Group("a", (Tree((turn,)), Tree((turn,))))]
    run, state = Run(max_tokens=1000), State(step=1, env_steps=100, tokens=400)
    assert run.turns_left(state, grown) == 148
    assert run.turns_left(State(), grown) is None  # nobody knows yet how long a turn is
    assert Run(max_tokens=1000, max_env_steps=120).turns_left(state, grown) == 18
    assert Run(max_tokens=300).turns_left(state, grown) == 0
    assert Run(max_seconds=5.0).turns_left(state, grown) is None

"""What the loop asks for, in which order, for each way of learning."""

from collections import defaultdict
from itertools import count

import pytest
from tests.rollouts.worlds import grower, ids

from retrograde.algorithms.grpo import grpo
from retrograde.algorithms.grpo_flat import grpo_flat
from retrograde.algorithms.rtpo import rtpo
from retrograde.algorithms.rtpo_plus import rtpo_plus
from retrograde.policies.scripted import ScriptedPolicy
from retrograde.trainer.loop import train
from retrograde.trainer.ports import Ports
from retrograde.trainer.run import Run, State

from .runs import Calls, LoggedActors, LoggedLearner, Notes, graded_hop

QUICK = {"min_signal": 1}


class Pupil:
    """A learner that learns nothing, at once."""

    def score(self, rows):
        return [list(row.behaviour_logp) for row in rows]

    def recomputed(self, rows):
        return rows

    def step(self, rows, loss):
        return defaultdict(float, grad_norm=1.0)

    def weights(self):
        return {}


class LoadingPolicy(ScriptedPolicy):
    """Only the number of the weights changes."""

    def load(self, weights, version):
        assert version == self.version + 1
        self.version = version

    def forget(self):
        pass


def searching(_context, seed):
    """Never answers, so that every rollout takes its three turns; every search is another."""
    return ids(f"search {('Ada', 'Ben', 'Carl', 'Dora')[seed % 4]} friend")


async def called(algorithm, run=None, *, script=searching, prompts=2, state=None):
    calls, notes, state = Calls(), Notes(), state or State()
    policy = LoadingPolicy(script)
    policy.version = state.version
    growing = grower(graded_hop(), policy)

    async def evaluate():
        calls.log.append("evaluate")
        return {"eval/success": 0.5}

    ports = Ports(
        tasks=lambda step, page: [
            f"train-{step * prompts + i + page * 1000}" for i in range(prompts)
        ],
        actors=LoggedActors(calls, growing, policy),
        learner=LoggedLearner(calls, Pupil()),
        journal=notes,
        evaluate=evaluate,
        checkpoint=lambda state: calls.log.append(f"save {state.step}"),
    )
    await train(algorithm, run or Run(steps=1), state, ports)
    await growing.forget()
    return calls, notes, state


def between(log):
    """The calls of the first iteration, without what is around it."""
    return " ".join(log[2 : log.index("evaluate", 2)])


@pytest.mark.parametrize("method", [rtpo, rtpo_plus])
async def test_rtpo_grows_learns_and_publishes_turn_by_turn(method):
    calls, _, state = await called(method(siblings=3, **QUICK))
    assert between(calls.log) == "grow" + " grow step load" * 3
    assert state.version == 3


async def test_rtpo_with_several_epochs_publishes_once_a_phase():
    calls, _, _ = await called(rtpo(siblings=3, epochs=2, **QUICK))
    assert between(calls.log) == "grow" + " grow step step load" * 3


async def test_grpo_grows_once_and_learns_from_all_of_it():
    calls, _, state = await called(grpo(rollouts=4, minibatches=2))
    assert between(calls.log) == "grow step step load"
    assert state.version == 1
    calls, _, _ = await called(grpo(rollouts=4, minibatches=2, epochs=3))
    assert between(calls.log) == "grow" + " step" * 6 + " load"


async def test_grpo_on_flat_histories_scores_them_first():
    calls, _, _ = await called(grpo_flat(rollouts=4, minibatches=1))
    assert between(calls.log) == "grow recompute step load"
    calls, _, _ = await called(grpo_flat(rollouts=4, minibatches=1, behaviour="sampled"))
    assert between(calls.log) == "grow step load"


async def test_a_phase_without_signal_takes_no_step_and_publishes_nothing():
    calls, notes, state = await called(
        rtpo(siblings=3, **QUICK), script=lambda _context, _seed: ids("search Ada friend")
    )
    assert between(calls.log) == "grow grow grow grow"
    assert notes.counts["update/skipped"] == 3
    assert state.version == 0


async def test_replay_goes_back_one_sweep_and_no_further():
    calls, _, state = await called(rtpo_plus(siblings=3, continuations=0, **QUICK), Run(steps=2))
    assert [len(batch) for batch in calls.batches] == [6, 12, 18, 18, 18, 18]
    assert [{row.turn for row in batch} for batch in calls.batches] == [
        {2}, {2, 1}, {2, 1, 0}, {2, 1, 0}, {2, 1, 0}, {2, 1, 0},
    ]  # fmt: skip
    assert [len(rows) for rows in state.recent] == [6] * 3
    calls, _, state = await called(rtpo(siblings=3, continuations=0, **QUICK), Run(steps=2))
    assert [len(batch) for batch in calls.batches] == [6] * 6
    assert not state.recent


async def test_phases_that_are_skipped_are_still_remembered():
    calls, notes, _ = await called(rtpo_plus(siblings=3, continuations=0, min_signal=8))
    assert notes.counts["update/skipped"] == 1  # 6 rows at most; with the next 6 there are enough
    assert [len(batch) for batch in calls.batches] == [12, 18]


async def test_a_run_evaluates_and_saves_at_its_start_and_its_end():
    calls, notes, _ = await called(grpo(rollouts=2), Run(steps=2, eval_every=0, save_every=100))
    assert calls.log[:2] == ["save 0", "evaluate"]
    assert calls.log[-2:] == ["evaluate", "save 2"]
    assert [step for step, evaluation in notes.evaluations if evaluation] == [0, 2]
    assert calls.log.count("evaluate") == 2


async def test_and_as_often_in_between_as_it_is_told():
    run = Run(steps=6, eval_every=2, save_every=3)
    calls, notes, _ = await called(grpo(rollouts=2), run)
    assert [step for step, evaluation in notes.evaluations if evaluation] == [0, 2, 4, 6]
    saved = [word for word in calls.log if word.startswith("save")]
    assert saved == ["save 0", "save 3", "save 6"]


async def test_a_run_ends_when_its_turns_are_used_up():
    _, notes, state = await called(grpo(rollouts=4), Run(max_env_steps=50))
    assert state.env_steps == 72  # 2 tasks, 4 rollouts, 3 turns: 24 an iteration
    assert state.step == 3
    assert state.tokens == 4 * 72
    assert notes.counts["rollouts/turns"] == 72


async def test_a_run_that_is_over_does_nothing_more():
    calls, _, state = await called(grpo(), Run(steps=3), state=State(step=3))
    assert calls.log == []
    assert state.step == 3


async def test_a_run_goes_on_from_where_its_state_says():
    calls, notes, state = await called(
        grpo(rollouts=2), Run(steps=3), state=State(step=2, version=5)
    )
    assert "save 0" not in calls.log
    assert state.step == 3
    assert {group.task for group in notes.grown[0]} == {"train-4", "train-5"}
    (version,) = {turn.policy_version for g in notes.grown[0] for t in g.trees for turn in t.turns}
    assert version == 5


async def test_tasks_of_unequal_length_meet_in_absolute_turns():
    """One task's trunk ends at once; it takes part in the phases of the turns it has."""
    numbers = count()

    def script(context, seed):
        first = next(numbers) == 0
        return ids("answer Ada") if first else searching(context, seed)

    calls, notes, _ = await called(rtpo(siblings=3, continuations=0, **QUICK), script=script)
    trunks = [len(tree.trunk) for group in notes.grown[-1] for tree in group.trees]
    assert trunks == [1, 3]
    assert [{row.turn for row in batch} for batch in calls.batches] == [{2}, {1}, {0}]
    assert [len(batch) for batch in calls.batches] == [3, 3, 6]

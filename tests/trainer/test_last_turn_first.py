"""An update turn by turn on the same samples: its order, and what earlier turns inherit."""

import copy
import math
from collections import defaultdict
from dataclasses import replace

import pytest
from tests.rollouts.worlds import chat, grower, grown

from retrograde.algorithms.seeupo import seeupo
from retrograde.backends.learner import TransformersLearner
from retrograde.backends.sampler import TransformersPolicy
from retrograde.data.rows import rows_of
from retrograde.trainer.drift import Drift
from retrograde.trainer.learning import learn
from retrograde.trainer.ports import Ports
from retrograde.trainer.run import State

from .runs import Notes, graded_hop, taught_hop

pytestmark = pytest.mark.usefixtures("_taught")


class Actors:
    def __init__(self):
        self.versions = []

    async def load(self, weights, version):
        self.versions.append(version)


class Watching:
    """A learner whose steps and scores are noted; the part before the first step is left out."""

    def __init__(self, inner):
        self.inner = inner
        self.log = []

    def step(self, rows, loss):
        self.log.append(("step", list(rows), None))
        return self.inner.step(rows, loss)

    def score(self, rows):
        logp = self.inner.score(rows)
        if self.log:
            self.log.append(("score", list(rows), logp))
        return logp

    def weights(self):
        return self.inner.weights()


class Certain:
    """A pupil: every token is `gain` likelier each time a step was taken."""

    def __init__(self, gain):
        self.gain = gain
        self.steps = 0

    def step(self, rows, loss):
        self.steps += 1
        return defaultdict(float, grad_norm=1.0)

    def score(self, rows):
        return [[logp + self.gain * self.steps for logp in row.behaviour_logp] for row in rows]

    def weights(self):
        return {}


async def sampled():
    """Rows of two tasks with four rollouts each, and the model that sampled them."""
    algorithm = seeupo(rollouts=4)
    model = copy.deepcopy(taught_hop())
    growing = grower(graded_hop(), TransformersPolicy(model, chat().stop_ids))
    groups = await grown(growing, algorithm.grow, ["train-0", "train-1"])
    await growing.forget()
    rows = rows_of(groups, [algorithm.credit(group, 0) for group in groups])
    assert {row.turn for row in rows} == {0, 1, 2}
    return rows, model


async def taken(algorithm, learner, rows):
    """The log of a learner that took one update, but for the last score: how far it all led."""
    actors, state, watching = Actors(), State(), Watching(learner)
    ports = Ports(lambda step, page: [], actors, watching, Notes(), None, None)
    trained = await learn(algorithm, state, ports, rows, 3, seed=1, drift=Drift())
    assert actors.versions == [1]
    assert trained == {row.turn for row in rows}
    *log, (last, _, _) = watching.log
    assert last == "score"
    return log


def before(algorithm, rows):
    """What each rollout's advantage is before anything was learned."""
    return {row.rollout: row.advantage for row in algorithm.normalise(rows)}


async def test_steps_are_taken_turn_by_turn_and_scored_after_each():
    rows, _ = await sampled()
    log = await taken(seeupo(minibatches=1), Certain(0.0), rows)
    assert [(what, {row.turn for row in seen}) for what, seen, _ in log] == [
        ("step", {2}), ("score", {2}), ("step", {1}), ("score", {1}), ("step", {0}), ("score", {0}),
    ]  # fmt: skip
    log = await taken(seeupo(minibatches=2, epochs=2), Certain(0.0), rows)
    assert [what for what, _, _ in log] == (["step"] * 4 + ["score"]) * 3


@pytest.mark.parametrize("form", ["paper", "code"])
async def test_earlier_turns_inherit_the_ratio_after_the_later_update(form):
    """With the true learner: each step's advantages are worked out again from what it scored."""
    rows, model = await sampled()
    algorithm = seeupo(form=form, minibatches=1, learning_rate=3e-3, warmup_steps=0)
    learner = TransformersLearner(model, algorithm.update, pad=chat().end_of_turn)
    log = await taken(algorithm, learner, rows)
    expected, moved = before(algorithm, rows), 0.0
    for (_, batch, _), (_, scored, logp) in zip(log[::2], log[1::2], strict=True):
        assert [row.advantage for row in batch] == pytest.approx(
            [expected[row.rollout] for row in batch]
        )
        for row, now in zip(scored, logp, strict=True):
            gap = sum(now) - sum(row.behaviour_logp)
            moved = max(moved, abs(gap))
            if form == "paper":
                expected[row.rollout] *= math.exp(gap)
            else:
                own = min(max(math.exp(gap / len(now)), 0.8), 1.2)
                whole = expected[row.rollout] / before(algorithm, rows)[row.rollout] * own
                held = min(max(whole, 0.8), 1.2)
                expected[row.rollout] = before(algorithm, rows)[row.rollout] * held
    assert moved > 0.05, "weights that stay where they were prove nothing"


async def test_the_factor_by_hand():
    # Each token is .1 likelier after each step; one step a turn. A rollout whose turn 2 has n2
    # tokens enters turn 1 with exp(.1 n2), and turn 0 with exp(.1 n2 + .2 n1). No advantage of
    # the turn that is updated first is changed, and no recorded log-probability.
    rows, _ = await sampled()
    algorithm = seeupo(minibatches=1)
    log = await taken(algorithm, Certain(0.1), rows)
    start = before(algorithm, rows)
    length = {(row.rollout, row.turn): len(row.action) for row in rows}
    (last, middle, first) = ({row.rollout: row for row in seen} for _, seen, _ in log[::2])
    assert {rollout: row.advantage for rollout, row in last.items()} == {
        rollout: start[rollout] for rollout in last
    }
    for rollout, row in middle.items():
        n2 = length.get((rollout, 2), 0)
        assert row.advantage == pytest.approx(start[rollout] * math.exp(0.1 * n2))
    for rollout, row in first.items():
        n2, n1 = length.get((rollout, 2), 0), length.get((rollout, 1), 0)
        assert row.advantage == pytest.approx(start[rollout] * math.exp(0.1 * n2 + 0.2 * n1))
        assert row.behaviour_logp == next(
            r.behaviour_logp for r in rows if r.rollout == rollout and r.turn == 0
        )


async def test_without_a_carry_advantages_stay_and_without_an_order_there_is_one_stage():
    rows, _ = await sampled()
    algorithm = seeupo(minibatches=1)
    start = before(algorithm, rows)
    plain = replace(algorithm, update=replace(algorithm.update, carry=None))
    log = await taken(plain, Certain(0.1), rows)
    assert [what for what, _, _ in log] == ["step"] * 3
    assert all(row.advantage == start[row.rollout] for _, seen, _ in log for row in seen)
    at_once = replace(plain, update=replace(plain.update, last_turn_first=False))
    ((_, seen, _),) = await taken(at_once, Certain(0.1), rows)
    assert {row.turn for row in seen} == {0, 1, 2}

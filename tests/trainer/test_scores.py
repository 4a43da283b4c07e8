"""What an update is measured by is scored in one pass before it and one after."""

import pytest
from tests.rollouts.worlds import grower

from retrograde.algorithms.rtpo import rtpo
from retrograde.data.rows import Row
from retrograde.trainer.loop import train
from retrograde.trainer.ports import Ports
from retrograde.trainer.run import Run, State
from retrograde.trainer.scores import scored

from .runs import Calls, LoggedActors, Notes, graded_hop
from .test_order import LoadingPolicy, Pupil, searching


class Asked(Pupil):
    """A pupil that notes what it is asked to score."""

    def __init__(self):
        self.asked = []

    def score(self, rows):
        self.asked.append(list(rows))
        return super().score(rows)


class Keeping(Notes):
    """A journal that wants the scores of the first row, and keeps what it is given."""

    def __init__(self):
        super().__init__()
        self.kept = []

    def wanted(self, rows):
        return rows[:1]

    def judged(self, rows, after):
        super().judged(rows, after)
        self.kept.append((rows[0], after))


def row(token, logp):
    return Row((1,), (token,), (logp,), 1.0, 0, 0, (0, 0, 0, 0))


def test_each_party_gets_its_own_scores_from_one_pass():
    one, two, three = row(1, -0.5), row(2, -1.5), row(3, -2.5)
    learner = Asked()
    assert scored(learner, [one, two], [], [three, one]) == [
        [[-0.5], [-1.5]],
        [],
        [[-2.5], [-0.5]],
    ]
    assert learner.asked == [[one, two, three, one]]
    assert scored(learner, [], []) == [[], []]
    assert len(learner.asked) == 1  # nothing was asked for


@pytest.mark.parametrize("prompts", [2])
async def test_an_update_is_measured_in_two_passes(prompts):
    policy, learner, notes = LoadingPolicy(searching), Asked(), Keeping()
    policy.version = 0
    growing = grower(graded_hop(), policy)

    async def evaluate():
        return {"eval/success": 0.5}

    ports = Ports(
        lambda step, page: [f"train-{i + page * 1000}" for i in range(prompts)],
        LoggedActors(Calls(), growing, policy),
        learner,
        notes,
        evaluate,
        lambda state: None,
    )
    await train(rtpo(siblings=3, min_signal=1), Run(steps=1), State(), ports)
    await growing.forget()
    # Three updates. Before the first: 6 siblings of two tasks, and the trunk's three turns in both.
    # After each: the siblings, what the journal wants, and the trunk; before the others no trunk.
    assert [len(rows) for rows in learner.asked] == [6 + 6, 6 + 1 + 6, *(6, 6 + 1 + 6) * 2]
    assert len(notes.seen("kl")) == len(notes.seen("sampling/logp_difference/max")) == 3
    for kept, after in notes.kept:
        assert after == [list(kept.behaviour_logp)]

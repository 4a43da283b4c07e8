"""A critic in the loop: asked once an iteration about every state, taught in every step."""

from dataclasses import replace
from statistics import fmean, variance

import pytest

from retrograde.algorithms.ppo import ppo
from retrograde.algorithms.turn_ppo import turn_ppo
from retrograde.data.rows import View, row_of
from retrograde.losses.policy import Level
from retrograde.trainer.evidence import gathered
from retrograde.trainer.ports import Ports

from .runs import Notes, ran

pytestmark = pytest.mark.usefixtures("_taught")
QUICK = {"rollouts": 3, "minibatches": 2, "learning_rate": 5e-3, "warmup_steps": 0}


def tokens_of(rows):
    return [a for row in rows for a in row.advantages]


def joined(batches):
    return [row for batch in batches for row in batch]


@pytest.mark.parametrize("critic", ["own", "shared"])
@pytest.mark.parametrize("method", [ppo, turn_ppo])
async def test_every_state_is_valued_and_taught(method, critic):
    algorithm = method(critic=critic, **QUICK)
    run = await ran(algorithm, steps=2)
    first, second = run.calls.batches[:2], run.calls.batches[2:]
    assert len(run.calls.batches) == len(run.notes.seen("value/loss")) == 4
    turns = algorithm.critic.level is Level.TURN
    for row in (row for batch in run.calls.batches for row in batch):
        states = 1 if turns else len(row.action)
        assert len(row.values) == len(row.target) == states
    # A fresh critic says 0; what it was taught shows in the next iteration.
    assert {v for batch in first for row in batch for v in row.values} == {0.0}
    assert all(v != 0 for batch in second for row in batch for v in row.values)
    for rows in (joined(first), joined(second)):
        # Every turn that was grown is there, and all of them together are white.
        each = [row.advantages[0] for row in rows] if turns else tokens_of(rows)
        assert fmean(each) == pytest.approx(0, abs=1e-9)
        assert variance(each) == pytest.approx(1, abs=1e-4)
    # Minibatch by minibatch they are not: whitening does not know how it will be split.
    assert abs(fmean(tokens_of(first[0]))) > 1e-3
    grown = [len(tree.turns) for group in run.groups(-1) for tree in group.trees]
    assert sum(grown) == sum(len(batch) for batch in second)


async def test_the_values_are_those_of_the_turns_they_are_given_to():
    """With lam 0 and gamma 1 what is said before a turn and after it meet in the target."""
    run = await ran(ppo(lam=0.0, **QUICK), steps=2)
    rows = {(row.rollout, row.turn): row for row in joined(run.calls.batches[2:])}
    trees = {(g, t): tree for g, group in enumerate(run.groups(-1))
             for t, tree in enumerate(group.trees)}  # fmt: skip
    for (place, turn), row in rows.items():
        _, g, t, leaf = place
        earned = trees[g, t].turns[trees[g, t].path(leaf)[turn]].reward
        after = rows.get((place, turn + 1))
        following = after.values[0] if after else 0.0
        expected = (*row.values[1:], earned + following)
        assert row.target == pytest.approx(expected, abs=1e-9)
    assert any(turn for _, turn in rows)


async def test_a_policy_with_a_critic_of_its_own_learns_as_if_the_critic_learned_nothing():
    """In the first step the critic's advantages are returns, so its learning must not show."""
    once = QUICK | {"minibatches": 1}
    slow, fast = [await ran(ppo(critic_speed=speed, **once), steps=1) for speed in (1e-9, 100.0)]
    assert slow.calls.batches == fast.calls.batches
    mine, theirs = slow.learner.weights(), fast.learner.weights()
    assert all(mine[name].equal(theirs[name]) for name in mine)


def ports_of(run, critic):
    async def never():
        return {}

    return Ports(
        tasks=lambda _step, _page: [],
        actors=None,
        learner=run.learner,
        journal=Notes(),
        evaluate=never,
        checkpoint=lambda _state: None,
        critic=critic,
    )


@pytest.mark.parametrize("method", [ppo, turn_ppo])
async def test_evidence_is_what_the_critic_says_of_each_turn(method):
    algorithm = method(**QUICK)
    run = await ran(algorithm, steps=1)
    found = gathered(algorithm, run.groups(), ports_of(run, run.critic), 0.0)
    seen = set()
    for known, group in zip(found, run.groups(), strict=True):
        for (t, turn), said in known.values.items():
            row = row_of(group.trees[t], turn, 0.0, View.EXACT, (0, 0, t, turn))
            (alone,) = run.critic.values([row], algorithm.critic)
            assert said == pytest.approx(alone, rel=1e-5, abs=1e-6)  # float32, other padding
            seen.add(tuple(round(v, 5) for v in said))
        assert len(known.values) == sum(len(tree.turns) for tree in group.trees)
    assert len(seen) > 3  # it says different things


async def test_an_algorithm_with_a_critic_needs_one():
    algorithm = ppo(**QUICK)
    run = await ran(algorithm, steps=1)
    ports = ports_of(run, None)
    with pytest.raises(ValueError, match=r"Ports\.critic is None"):
        gathered(algorithm, run.groups(), ports, 0.0)
    plain = replace(algorithm, critic=None)
    assert not any(known.values for known in gathered(plain, run.groups(), ports, 0.0))

"""What credit is told of right answers is what the model says of them, in the places of turns."""

import copy
import math
from statistics import fmean

import pytest
import torch
from tests.rollouts.worlds import chat, grower
from tests.trainer.runs import HOP, Notes, taught_hop

from retrograde.algorithms.a2tgpo import a2tgpo
from retrograde.algorithms.grpo import grpo
from retrograde.backends.learner import TransformersLearner
from retrograde.backends.sampler import TransformersPolicy
from retrograde.data.tree import ROOT_PARENT, End, Group, Tree, Turn
from retrograde.rollouts.plans import NEW_TREE, Fork
from retrograde.schedules.update import Update
from retrograde.trainer.evidence import gathered
from retrograde.trainer.ports import Ports

TASK = "train-0"


def gold(task):
    return chat().said(HOP.gold(task))


def learner(model=None, temperature=1.0):
    made = model or copy.deepcopy(taught_hop())
    update = Update(learning_rate=1e-3)
    return TransformersLearner(made, update, pad=chat().end_of_turn, temperature=temperature)


def ports(scoring, right=gold):
    return Ports(
        tasks=lambda _step, _page: [TASK],
        actors=None,
        learner=scoring,
        journal=Notes(),
        evaluate=None,
        checkpoint=None,
        **({} if right is None else {"gold": right}),
    )


@pytest.fixture
async def group(_taught):
    """Rollouts with a branch, so that turns share a context."""
    growing = grower(HOP, TransformersPolicy(taught_hop(), chat().stop_ids))
    plant = [[Fork(NEW_TREE, ROOT_PARENT, keep=True)] * 3]
    groups = await growing.grow([Group(TASK)], plant, 0, 3)
    groups = await growing.grow(groups, [[Fork(0, ROOT_PARENT)]], 1, 3)
    await growing.forget()
    assert sum(len(tree.turns) for tree in groups[0].trees) > 6
    return groups[0]


def by_forward_pass(model, context, answer, temperature=1.0):
    """Mean log-probability of an answer's tokens, one softmax at a time."""
    with torch.no_grad():
        logits = model(torch.tensor([context + answer])).logits[0].double() / temperature
    logp = logits.log_softmax(-1)
    at = len(context) - 1
    return fmean(float(logp[at + i, token]) for i, token in enumerate(answer))


@pytest.mark.parametrize("temperature", [1.0, 0.7])
async def test_it_is_the_mean_log_probability_in_the_place_of_each_turn(group, temperature):
    (known,) = gathered(a2tgpo(), [group], ports(learner(temperature=temperature)), 0.25)
    assert known.progress == 0.25
    places = {(t, i) for t, tree in enumerate(group.trees) for i in range(len(tree.turns))}
    assert known.gold_logp.keys() == places
    assert chat().tokenizer.decode(gold(TASK)).startswith("<think> 0 </think> answer")
    for (t, i), logp in known.gold_logp.items():
        context = group.trees[t].context(i)
        expected = by_forward_pass(taught_hop(), context, gold(TASK), temperature)
        assert logp == pytest.approx(expected, abs=1e-4)


async def test_another_context_another_answer_and_other_weights_give_other_numbers(group):
    scoring = learner()
    (known,) = gathered(a2tgpo(), [group], ports(scoring), 0.0)
    tree = group.trees[1]
    mine, before = known.gold_logp[1, 1], known.gold_logp[1, 0]

    def differs(context, answer):
        return abs(by_forward_pass(taught_hop(), context, answer) - mine) > 1e-3

    assert not differs(tree.context(1), gold(TASK))
    assert differs(tree.context(0), gold(TASK))  # the context of the turn before
    assert differs(tree.history(1), gold(TASK))  # the flat history, which the window does not show
    assert differs(tree.context(1), gold("train-1"))
    assert abs(mine - before) > 1e-3
    with torch.no_grad():
        for weight in scoring.model.parameters():
            weight.mul_(1.01)
    (later,) = gathered(a2tgpo(), [group], ports(scoring), 0.0)
    assert abs(later.gold_logp[1, 1] - mine) > 1e-4


async def test_who_does_not_need_it_does_not_ask(group):
    def asked(task):
        raise AssertionError(task)

    (known,) = gathered(grpo(), [group], ports(learner(), asked), 0.5)
    assert known.gold_logp == {}


async def test_what_failed_for_want_of_an_answer_is_not_asked_about(group):
    silent = Turn(ROOT_PARENT, 0, (1,), (1,), (), (), 0, 0, end=End.FAILED)
    beside = Group(TASK, (*group.trees, Tree((silent,))))
    (known,) = gathered(a2tgpo(), [group], ports(learner()), 0.0)
    (other,) = gathered(a2tgpo(), [beside], ports(learner()), 0.0)
    assert other.gold_logp == pytest.approx(known.gold_logp)
    assert a2tgpo().credit(beside, 1, other)[-1].trains_V == (False,)


async def test_without_a_right_answer_there_is_a_clear_error(group):
    with pytest.raises(LookupError, match="nobody said what the right answer of task 'train-0' is"):
        gathered(a2tgpo(), [group], ports(learner(), None), 0.0)


async def test_credit_takes_the_gain_from_there(group):
    (known,) = gathered(a2tgpo(), [group], ports(learner()), 0.0)
    judged = a2tgpo(alpha=1.0).credit(group, 1, known)
    alone = a2tgpo(alpha=0.0).credit(group, 1, known)
    valid = [
        (t, leaf)
        for t, tree in enumerate(group.trees)
        for leaf in tree.leaves
        if tree.turns[leaf].end is not End.FAILED
    ]
    longest = [(t, leaf) for t, leaf in valid if group.trees[t].depths[leaf] == HOP.turn_limit - 1]
    assert len(longest) > 1
    # The turn before the last one: its only gain, among those of the same index.
    index = HOP.turn_limit - 2
    gains = {}
    for t, leaf in longest:
        path = group.trees[t].path(leaf)
        before, after = (math.exp(known.gold_logp[t, i]) for i in path[index : index + 2])
        gains[t, leaf] = after - before
    mean = fmean(gains.values())
    spread = math.sqrt(fmean((g - mean) ** 2 for g in gains.values()) + 1e-8)
    for (t, leaf), gain in gains.items():
        tree = group.trees[t]
        place = tree.visits.index((leaf, tree.path(leaf)[index]))
        difference = judged[t].advantage_V[place] - alone[t].advantage_V[place]
        assert difference == pytest.approx((gain - mean) / spread)

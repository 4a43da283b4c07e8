"""N1: what is trained is what acted, in every phase, and each way of getting it wrong shows."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from tests.rollouts.worlds import Watched, chat

from retrograde.algorithms.grpo import grpo
from retrograde.algorithms.grpo_flat import grpo_flat
from retrograde.algorithms.rtpo import rtpo
from retrograde.algorithms.rtpo_plus import rtpo_plus
from retrograde.backends.flat import action_logp
from retrograde.data.rows import View
from retrograde.data.tree import ROOT_PARENT, End, Group, Tree
from retrograde.environments.hop import Hop
from retrograde.rendering.history import Renderer

from .runs import TURNS, LoggedActors, graded_hop, ran

pytestmark = pytest.mark.usefixtures("_taught")
ROUNDING = 1e-5
QUICK = {"min_signal": 1, "learning_rate": 5e-3, "warmup_steps": 0}


def one_rtpo(**options):
    return rtpo(siblings=4, **(QUICK | options))


class DeafActors(LoggedActors):
    """Weights never arrive."""

    async def load(self, weights, version):
        self.calls.log.append("load")


class RenderingActors(LoggedActors):
    """Contexts are put together again after the fact, as if old results had not been dropped."""

    async def grow(self, groups, forks, grown_in, seed):
        grown = await super().grow(groups, forks, grown_in, seed)
        return [Group(g.task, tuple(rendered(tree) for tree in g.trees)) for g in grown]


def rendered(tree: Tree) -> Tree:
    renderer = Renderer(chat(), "drop_thinking")
    turns = []
    for i, turn in enumerate(tree.turns):
        *before, _ = tree.path(i)
        context = []
        for j in before:
            context += tree.turns[j].observation
            context += renderer._kept(tree.turns[j].action)
        turns.append(replace(turn, shared=0, fresh=(*context, *turn.observation)))
    return Tree(tuple(turns))


def first_ratios(run):
    """How far from 1 the ratio was in the first minibatch of each update; none is vacuous."""
    assert all(count > 0 for count in run.notes.seen("rows/run"))
    assert len(run.notes.seen("ratio/error_max")) == run.calls.log.count("step")
    return run.notes.seen("ratio/error_max")


@pytest.mark.parametrize("context", ["window", "drop_thinking", "full", "markov"])
async def test_the_ratio_is_1_in_every_phase(context):
    run = await ran(one_rtpo(), world=graded_hop(context=context), steps=2)
    assert run.calls.log.count("step") == run.calls.log.count("load") == 2 * TURNS
    assert max(first_ratios(run)) < ROUNDING
    assert max(run.notes.seen("sampling/logp_difference/max")) < ROUNDING
    assert run.notes.seen("ratio/mean") == pytest.approx([1.0] * 2 * TURNS, abs=ROUNDING)


async def test_the_ratio_is_1_at_another_temperature():
    run = await ran(one_rtpo(), temperature=0.7)
    assert max(first_ratios(run)) < ROUNDING


async def test_the_rows_of_a_phase_are_its_siblings_under_the_contexts_they_were_given():
    run = await ran(one_rtpo())
    (trees,) = [[tree for group in run.groups() for tree in group.trees]]
    for phase, batch in enumerate(run.calls.batches, start=1):
        siblings = {
            (tree.context(i), turn.action, turn.logprobs)
            for tree in trees
            for i, turn in enumerate(tree.turns)
            if turn.grown_in == phase and tree.depths[i] == TURNS - phase
        }
        assert {(row.context, row.action, row.behaviour_logp) for row in batch} == siblings
        assert {row.turn for row in batch} == {TURNS - phase}


async def test_trunks_and_later_turns_are_never_trained():
    run = await ran(one_rtpo())
    trained = {
        (row.rollout[1], row.rollout[2], row.behaviour_logp) for b in run.calls.batches for row in b
    }
    others = 0
    for g, group in enumerate(run.groups()):
        for t, tree in enumerate(group.trees):
            for i, turn in enumerate(tree.turns):
                left_the_tree = turn.grown_in and (
                    turn.parent == ROOT_PARENT or tree.turns[turn.parent].grown_in != turn.grown_in
                )
                if not left_the_tree:
                    assert (g, t, turn.logprobs) not in trained, (g, t, i)
                    others += 1
    assert others > 10


async def test_siblings_are_judged_by_their_own_mean_and_the_trunk_has_no_part_in_it():
    run = await ran(one_rtpo(continuations=0))
    for batch in run.calls.batches:
        boundaries = {(row.rollout[1], row.rollout[2], row.context) for row in batch}
        for boundary in boundaries:
            siblings = [
                row for row in batch if (row.rollout[1], row.rollout[2], row.context) == boundary
            ]
            assert len(siblings) == 4
            tree = run.groups()[boundary[0]].trees[boundary[1]]
            returns = [tree.returns[row.rollout[3]] for row in siblings]
            mean = sum(returns) / len(returns)
            assert [row.advantage for row in siblings] == pytest.approx([r - mean for r in returns])
    assert any(row.advantage for batch in run.calls.batches for row in batch)


async def test_replayed_rows_keep_the_log_probabilities_they_were_sampled_with():
    algorithm = rtpo_plus(siblings=4, **QUICK)
    run = await ran(algorithm, steps=2)
    sizes = [len(batch) for batch in run.calls.batches]
    fresh = [sizes[0], *(b - a for a, b in pairwise(sizes[:TURNS]))]
    assert all(number > 0 for number in fresh)  # each phase adds its own to those before
    for before, after in pairwise(run.calls.batches):
        assert [row for row in after if row in before]  # and repeats them as they were
    versions = [{row.rollout[0] for row in batch} for batch in run.calls.batches]
    assert versions == [{0}, {0, 1}, {0, 1, 2}, {1, 2, 3}, {2, 3, 4}, {3, 4, 5}]
    assert first_ratios(run)[0] < ROUNDING
    assert first_ratios(run)[1] > ROUNDING  # rows of a policy that is no more: honestly off
    assert max(run.notes.seen("sampling/logp_difference/max")) < ROUNDING  # fresh ones are not


async def test_grpo_is_at_1_in_its_first_minibatch_only():
    run = await ran(grpo(rollouts=4, minibatches=2, learning_rate=5e-3, warmup_steps=0))
    first, second = first_ratios(run)
    assert first < ROUNDING < 1e-3 < second


# Controls: each of these must be seen.


async def test_a_flat_history_is_seen_in_the_ratio():
    exact = await ran(one_rtpo())
    flat = await ran(replace(one_rtpo(), view=View.FLAT_SAMPLED))
    assert max(first_ratios(exact)) < ROUNDING
    last, middle, first = first_ratios(flat)
    assert min(last, middle) > 1e-2
    assert first < ROUNDING  # a first turn has no past that could be shown wrongly


async def test_a_flat_history_with_new_log_probabilities_is_seen_in_the_ids_alone():
    m1 = await ran(grpo_flat(rollouts=4, minibatches=1, learning_rate=5e-3, warmup_steps=0))
    assert m1.calls.log.count("recompute") == 1
    assert max(first_ratios(m1)) < ROUNDING  # the mistake that a ratio cannot show
    given = {
        (tree.context(i), turn.action)
        for group in m1.groups()
        for tree in group.trees
        for i, turn in enumerate(tree.turns)
    }
    (batch,) = m1.calls.batches
    assert {(row.context, row.action) in given for row in batch if row.turn} == {False}
    assert {(row.context, row.action) in given for row in batch if not row.turn} == {True}


async def test_contexts_that_are_rendered_again_are_seen_in_the_ratio():
    run = await ran(one_rtpo(), actors=RenderingActors)
    last, _middle, first = first_ratios(run)
    assert last > 1e-2
    assert first < ROUNDING
    assert max(run.notes.seen("sampling/logp_difference/max")) > 1e-2


async def test_a_phase_without_publication_is_seen_in_the_next_ones_ratio():
    run = await ran(one_rtpo(), actors=DeafActors)
    first, second, third = first_ratios(run)
    assert first < ROUNDING
    assert min(second, third) > 1e-3
    assert run.notes.seen("sampling/logp_difference/max")[1] > 1e-3


# Versions.


def versions_of(run):
    """The policy versions that each round's answers carry, round by round."""
    turns = [turn for group in run.groups() for tree in group.trees for turn in tree.turns]
    return [
        {turn.policy_version for turn in turns if turn.grown_in == phase}
        for phase in range(TURNS + 1)
    ]


async def test_each_phase_that_stepped_is_one_version_on():
    run = await ran(one_rtpo())
    assert versions_of(run) == [{0}, {0}, {1}, {2}]
    assert run.state.version == run.policy.version == TURNS


async def test_a_phase_that_was_skipped_is_not():
    run = await ran(one_rtpo(min_signal=10_000))
    assert versions_of(run) == [{0}] * (TURNS + 1)
    assert run.notes.counts["update/skipped"] == TURNS
    assert run.notes.counts["update/steps"] == 0
    assert run.state.version == 0


async def test_the_published_weights_are_the_learners():
    run = await ran(one_rtpo())
    for name, tensor in run.policy.model.named_parameters():
        assert torch.equal(tensor, run.learner.weights()[name])


async def test_log_probabilities_of_each_phase_are_those_of_its_own_policy():
    """Scored under the final weights, only what the last policy would say is not that of then."""
    run = await ran(one_rtpo(), steps=1)
    gaps = {}
    with torch.inference_mode():
        for group in run.groups():
            for tree in group.trees:
                for i, turn in enumerate(tree.turns):
                    if turn.end is End.FAILED:
                        continue
                    (logp,) = action_logp(
                        run.policy.model, [tree.context(i)], [turn.action], 1.0, 0
                    )
                    gap = float((logp - torch.tensor(turn.logprobs)).abs().max())
                    gaps.setdefault(turn.policy_version, []).append(gap)
    assert set(gaps) == {0, 1, 2}
    assert min(max(gap) for gap in gaps.values()) > 1e-3  # each acted before the last step


async def test_siblings_that_cancel_each_other_are_no_update():
    """The same words, once lucky and once not: two rows with advantages, and no gradient."""

    def lucky(episode, _text, observation):
        reward = float(episode.number % 2)
        return replace(observation, reward=reward, end=observation.end or End.FINISHED)

    world = Watched(Hop(hops=2), turned=lucky, comparable=False)
    run = await ran(rtpo(siblings=2, **QUICK), world=world, prompts=1, temperature=1e-4)
    turns = run.groups()[0].trees[0].turns
    assert len({turn.action for turn in turns}) == 1
    assert {turn.reward for turn in turns[1:]} == {0.0, 1.0}
    assert run.state.version == 0
    assert run.notes.counts["update/steps"] == 0
    assert run.notes.counts["update/skipped"] == 1

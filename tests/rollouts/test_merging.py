"""Siblings that lead to the same state share continuations, and need none if all do."""

import itertools
from collections import Counter
from dataclasses import replace

import pytest

from retrograde.credit.sibling_mean import SiblingMean
from retrograde.data.rows import rows_of
from retrograde.data.tree import ROOT_PARENT, End, Group, Tree
from retrograde.environments.hop import Hop, Question
from retrograde.environments.lake import Lake
from retrograde.policies.scripted import ScriptedPolicy
from retrograde.rollouts.plans import NEW_TREE, Fork, ReverseTree, rollouts_grown

from .worlds import Watched, grower, ids

TASK = "train-0"
QUESTION = Question.of(TASK, 3)
RIGHT = f"search {QUESTION.start} {QUESTION.relations[0]}"
WRONG = f"search {QUESTION.chain[1]} {QUESTION.relations[0]}"


class InTurn:
    """Says the given answers at the first call it is told to, then one answer for ever."""

    def __init__(self, usual="search Ada friend"):
        self.usual = ids(usual)
        self.answers = []

    def __call__(self, _context, _seed):
        return self.answers.pop(0) if self.answers else self.usual


async def forked(said, *, continuations=1, world=None, usual="search Ada friend"):
    """A trunk, and siblings at its first turn that say these things."""
    script = InTurn(usual)
    world = world or Watched(Hop())
    growing = grower(world, ScriptedPolicy(script))
    plant = [[Fork(NEW_TREE, ROOT_PARENT, keep=True)]]
    groups = await growing.grow([Group(TASK)], plant, 0, 1)
    script.answers = [ids(text) for text in said]
    fork = [[Fork(0, ROOT_PARENT, len(said), continuations)]]
    (group,) = await growing.grow(groups, fork, 1, 1)
    await growing.forget()
    world.book.check()
    (tree,) = group.trees
    return tree


def siblings(tree: Tree) -> list[int]:
    return [i for i, t in enumerate(tree.turns) if t.parent == ROOT_PARENT and t.grown_in == 1]


def ends(tree: Tree) -> list[End | None]:
    return [tree.turns[i].end for i in siblings(tree)]


def paths_below(tree: Tree, turn: int) -> int:
    return sum(turn in tree.path(leaf) for leaf in tree.leaves) - (turn in tree.leaves)


@pytest.mark.parametrize("continuations", [1, 2, 3])
async def test_equal_siblings_are_continued_together(continuations):
    tree = await forked([RIGHT, WRONG, RIGHT, RIGHT, WRONG], continuations=continuations)
    first, second, third, fourth, fifth = siblings(tree)
    assert ends(tree) == [None, None, End.MERGED, End.MERGED, End.MERGED]
    twins = [tree.turns[i].merged_into for i in (third, fourth, fifth)]
    assert twins == [first, first, second]
    assert [paths_below(tree, i) for i in (first, second)] == [continuations] * 2
    assert len(set(tree.children[first])) == continuations


async def test_siblings_that_all_lead_to_one_state_are_spared():
    tree = await forked([RIGHT, RIGHT, RIGHT])
    assert ends(tree) == [End.SPARED, End.MERGED, End.MERGED]
    assert rollouts_grown(Group(TASK, (tree,))) == 1  # the trunk alone
    (judged,) = SiblingMean()(Group(TASK, (tree,)), 1)
    rows = rows_of([Group(TASK, (tree,))], [[judged]])
    assert [row.advantage for row in rows] == [0.0] * 3  # they still count in the mean


async def test_different_siblings_are_continued_one_by_one():
    tree = await forked([RIGHT, WRONG], continuations=2)
    assert ends(tree) == [None, None]
    assert [paths_below(tree, i) for i in siblings(tree)] == [2, 2]


async def test_without_continuations_nothing_is_merged():
    tree = await forked([RIGHT, RIGHT, RIGHT], continuations=0)
    assert ends(tree) == [None] * 3
    assert [paths_below(tree, i) for i in siblings(tree)] == [1] * 3


async def test_states_that_cannot_be_compared_are_not_merged():
    tree = await forked([RIGHT, RIGHT, RIGHT], world=Watched(Hop(), comparable=False))
    assert ends(tree) == [None] * 3
    assert [paths_below(tree, i) for i in siblings(tree)] == [1] * 3


async def test_the_same_place_under_other_words_is_not_the_same_state():
    # Under the full context the answers differ, and the policy will see that.
    tree = await forked([RIGHT, f"<think> 1 </think> {RIGHT}"], world=Watched(Hop(context="full")))
    assert ends(tree) == [None, None]
    tree = await forked([RIGHT, f"<think> 1 </think> {RIGHT}"])
    assert ends(tree) == [End.SPARED, End.MERGED]


async def test_the_same_words_in_another_state_are_not_the_same_state():
    # `window` shows no more than the last answer; whether it was right is in the state.
    world = Watched(Hop(context="markov"))
    tree = await forked(["nonsense", "search search", RIGHT, RIGHT], world=world)
    assert ends(tree) == [None, End.MERGED, None, End.MERGED]


async def test_a_failed_sibling_keeps_the_others_from_nothing():
    broken = Watched(Hop(), turned=_breaks_at("search Ada mentor"))
    tree = await forked(["search Ada mentor", RIGHT, RIGHT], world=broken)
    assert ends(tree) == [End.FAILED, End.SPARED, End.MERGED]
    tree = await forked(["search Ada mentor", RIGHT, WRONG], world=broken)
    assert ends(tree) == [End.FAILED, None, None]


def _breaks_at(words):
    def turned(_episode, text, observation):
        if text == words:
            raise OSError("the line is dead")
        return observation

    return turned


async def test_one_valid_sibling_alone_is_continued():
    broken = Watched(Hop(), turned=_breaks_at("search Ada mentor"))
    tree = await forked(["search Ada mentor", RIGHT, "search Ada mentor"], world=broken)
    assert ends(tree) == [End.FAILED, None, End.FAILED]


async def test_a_sibling_that_ends_the_game_is_not_like_one_that_does_not():
    tree = await forked(["answer Ada", RIGHT, RIGHT])
    assert ends(tree) == [End.FINISHED, None, End.MERGED]


async def test_siblings_of_different_forks_are_not_compared():
    script = InTurn()
    growing = grower(Hop(), ScriptedPolicy(script))
    plant = [[Fork(NEW_TREE, ROOT_PARENT, keep=True)] * 2]
    groups = await growing.grow([Group(TASK)], plant, 0, 1)
    script.answers = [ids(RIGHT), ids(WRONG)] * 2
    forks = [[Fork(0, ROOT_PARENT, 2, 1), Fork(1, ROOT_PARENT, 2, 1)]]
    (group,) = await growing.grow(groups, forks, 1, 1)
    assert [ends(tree) for tree in group.trees] == [[None, None]] * 2


async def test_continuations_have_chances_of_their_own():
    futures = Counter()
    for i in range(8):
        world = Watched(Lake(slip=True, turns=16))
        script = InTurn("go north")
        growing = grower(world, ScriptedPolicy(script))
        groups = [Group(f"train-{i}")]
        groups = await growing.grow(groups, [[Fork(NEW_TREE, ROOT_PARENT, keep=True)]], 0, 1)
        script.answers = [ids("nonsense"), ids("go north")]
        forks = [[Fork(0, ROOT_PARENT, 2, continuations=4)]]
        (group,) = await growing.grow(groups, forks, 1, 1)
        (tree,) = group.trees
        first = siblings(tree)[0]
        observed = [tree.turns[child].observation for child in tree.children[first]]
        assert len(observed) == 4
        assert len(set(observed)) == 1  # one state, one context
        lengths = {
            (len(tree.path(leaf)), tree.returns[leaf], tree.turns[leaf].fresh)
            for leaf in tree.leaves
            if first in tree.path(leaf)
        }
        futures[len(lengths) > 1] += 1
    assert futures[True] > 4


async def test_values_of_merged_siblings_are_those_of_what_they_share():
    rewarded = Watched(Hop(), turned=_rewards())
    tree = await forked([RIGHT, WRONG, RIGHT], continuations=2, world=rewarded)
    first, second, third = siblings(tree)
    value = {
        i: sum(tree.returns[leaf] for leaf in tree.leaves if i in tree.path(leaf)) / 2
        for i in (first, second)
    }
    value[third] = value[first]
    mean = sum(value.values()) / 3
    (judged,) = SiblingMean()(Group(TASK, (tree,)), 1)
    advantage = {
        turn: advantage
        for (_, turn), advantage, trains in zip(tree.visits, *judged[:2], strict=True)
        if trains
    }
    assert advantage == pytest.approx({i: value[i] - mean for i in siblings(tree)})
    assert any(advantage.values())


def _rewards():
    numbers = itertools.count()

    def turned(_episode, _text, observation):
        if observation.end is None:
            return observation
        return replace(observation, reward=float(next(numbers) % 5))

    return turned


async def test_a_cap_thins_boundaries_and_leaves_out_what_cannot_be_compared():
    script = InTurn()
    growing = grower(Hop(), ScriptedPolicy(script))
    plan, groups, grown = ReverseTree(2, 4, 0, max_rollouts=9), [Group(TASK)], []
    for done in itertools.count():
        forks = plan(groups, done)
        grown.append([fork.answers for fork in forks[0]])
        if not any(forks):
            break
        groups = await growing.grow(groups, forks, done, 1)
    assert grown == [[1, 1], [4, 3], []]
    assert rollouts_grown(groups[0]) == 9

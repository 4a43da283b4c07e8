"""Who gets a further try: on trees written by hand, and in a world of tries."""

import pytest
from tests.learning.tries import Tries
from tests.learning.worlds import chat

from retrograde.data.tree import ROOT_PARENT, End, Group, Tree, Turn
from retrograde.policies.protocol import Sampling
from retrograde.policies.scripted import ScriptedPolicy
from retrograde.rendering.history import Renderer
from retrograde.rollouts.adaptive_turns import AdaptiveTurns
from retrograde.rollouts.grow import Grower
from retrograde.rollouts.plans import NEW_TREE, Fork

from .worlds import grown


def tries(*scores, end=None):
    """A rollout with these scores; None for a turn that broke."""
    solved = scores[-1] == 1
    last = End.FAILED if scores[-1] is None else end or (End.FINISHED if solved else End.STOPPED)
    return Tree(
        tuple(
            Turn(
                i - 1, 0, (1,), (1,), (2,), (-1.0,), i, 0,
                end=last if i == len(scores) - 1 else None, score=score,
            )
            for i, score in enumerate(scores)
        )
    )  # fmt: skip


def group(failing, of=8, **how):
    return Group("a", (*[tries(0.0, **how)] * failing, *[tries(1.0)] * (of - failing)))


def test_one_turn_for_everyone_first():
    plan = AdaptiveTurns(rollouts=3)
    assert plan([Group("a"), Group("b")], 0) == [[Fork(NEW_TREE, ROOT_PARENT, turns=1)] * 3] * 2
    assert not plan.forks


def test_failed_ones_go_on_where_the_task_is_neither_easy_nor_hopeless():
    plan = AdaptiveTurns(least_failing=4, most_failing=7)
    went_on = [len(forks) for forks in plan([group(n) for n in range(9)], 1)]
    assert went_on == [0, 0, 0, 0, 4, 5, 6, 7, 0]
    # Each by itself, behind its own last turn, and once.
    assert plan([group(4)], 1) == [[Fork(t, 0, turns=1) for t in range(4)]]


def test_the_first_turn_decides_to_the_end():
    # Five failed at first, of which three were mended in turn 1. Two are left, fewer than four.
    mended, failing, solved = tries(0.0, 1.0), tries(0.5, 0.9), tries(1.0)
    later = Group("a", (mended, failing, solved, mended, failing, solved, mended, solved))
    plan = AdaptiveTurns(turns=3)
    assert plan([later], 2) == [[Fork(1, 1, turns=1), Fork(4, 1, turns=1)]]
    assert plan([later], 3) == [[]]
    assert AdaptiveTurns(turns=2)([later], 2) == [[]]


def test_only_what_was_stopped_can_go_on():
    # What the environment ended is over; what broke neither goes on nor counts as failing.
    assert AdaptiveTurns()([group(5, end=End.TRUNCATED)], 1) == [[]]
    broken = Group("a", (*group(3).trees, tries(None), tries(None)))
    assert AdaptiveTurns()([broken], 1) == [[]]
    assert len(AdaptiveTurns(least_failing=3)([broken], 1)[0]) == 3


def test_a_success_that_was_stopped_does_not_go_on():
    lasting = Group("a", (*group(4, of=4).trees, tries(1.0, end=End.STOPPED)))
    assert AdaptiveTurns()([lasting], 1) == [[Fork(t, 0, turns=1) for t in range(4)]]


async def grown_by(plan, words):
    """Rollouts of one task whose policy says these words in turn; and all contexts asked about."""
    said, contexts = iter(words), []

    def script(context, _seed):
        contexts.append(chat().tokenizer.decode(context))
        return tuple(chat().tokenizer.encode(next(said)))

    world = Tries()
    growing = Grower(
        world, Renderer(chat(), world.context), ScriptedPolicy(script), Sampling(1.0, 1)
    )
    groups = await grown(growing, plan, ["train-0"])
    await growing.forget()
    return groups[0], contexts


async def test_hopeless_tasks_are_given_up():
    plan = AdaptiveTurns(rollouts=4, least_failing=1, most_failing=3)
    group, contexts = await grown_by(plan, ["red"] * 4)
    assert [len(tree.turns) for tree in group.trees] == [1] * 4
    assert len(contexts) == 4


async def test_a_second_try_is_made_in_view_of_the_first_and_of_what_was_said_to_it():
    # Four words, one of them the task's; then the others again, behind the hint.
    words = ("left", "right", "up", "down")
    plan = AdaptiveTurns(rollouts=4, turns=2, least_failing=1, most_failing=3)
    group, contexts = await grown_by(plan, [*words, *["red"] * 3])
    solved = [tree.turns[0].score == 1 for tree in group.trees]
    assert sum(solved) == 1
    assert [len(tree.turns) for tree in group.trees] == [1 if s else 2 for s in solved]
    first = [word for word, done in zip(words, solved, strict=True) if not done]
    for word, context in zip(first, contexts[4:], strict=True):
        opening, rest = context.split(word)
        assert opening.strip() == contexts[0].strip()
        assert "<user>" in rest
    ends = {tree.turns[-1].end for tree in group.trees}
    assert ends == {End.FINISHED, End.STOPPED}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rollouts": 1}, r"rollouts: at least 2 .* got 1"),
        ({"turns": 0}, r"turns: at least 1 .* got 0"),
        ({"least_failing": 8}, "least_failing, most_failing: .* got 8 and 7"),
        ({"least_failing": -1}, "least_failing, most_failing: .* got -1 and 7"),
    ],
)
def test_bad_options_are_refused(options, said):
    with pytest.raises(ValueError, match=said):
        AdaptiveTurns(**options)

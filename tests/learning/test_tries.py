"""Methods that no shipped environment suits, in worlds that do: grown, judged and learned."""

import asyncio

import pytest

from retrograde.algorithms.fit import obstacles
from retrograde.algorithms.leap import leap
from retrograde.algorithms.memopilot import memopilot
from retrograde.data.tree import End

from .test_signals import learned
from .tries import MOST_TRIES, Memos, Tries

PACE = {"learning_rate": 1e-2, "warmup_steps": 5}


def test_leap_learns_to_try_again_only_where_it_is_worth_it():
    algorithm = leap(rollouts=8, least_failing=2, most_failing=8, **PACE)
    assert obstacles(algorithm, Tries()) == []
    start, end, _, grown = asyncio.run(learned(algorithm, 0, Tries(), budget=6000))
    assert start["eval/success"] < 0.5
    assert end["eval/success"] >= 0.9
    for group in (group for groups in grown for group in groups):
        failing = sum(tree.turns[0].score != 1 for tree in group.trees)
        worth_it = 2 <= failing <= 8
        for tree in group.trees:
            assert tree.leaves == (len(tree.turns) - 1,), "nothing branches"
            solved = [turn.score == 1 for turn in tree.turns]
            assert not any(solved[:-1]), "nobody goes on after a success"
            if solved[-1] or not worth_it:
                assert solved[-1] or len(tree.turns) == 1
            else:
                assert len(tree.turns) == MOST_TRIES
            left = End.TRUNCATED if len(tree.turns) == MOST_TRIES else End.STOPPED
            assert tree.turns[-1].end is (End.FINISHED if solved[-1] else left)


@pytest.mark.parametrize("seed", [0, 1])
def test_memopilot_learns_what_pays_a_turn_later(seed):
    assert obstacles(memopilot(), Memos()) == []
    start, end, _, _ = asyncio.run(learned(memopilot(**PACE), seed, Memos(), budget=6000))
    assert start["eval/success"] < 0.1
    assert end["eval/success"] >= 0.9


def test_credited_with_what_was_paid_before_it_learns_nothing():
    _, end, _, _ = asyncio.run(learned(memopilot(delay=0, **PACE), 0, Memos(), budget=6000))
    assert end["eval/success"] < 0.5

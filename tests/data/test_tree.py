"""Trees: what they refuse, and what they put together. Laws are in `tests/properties`."""

import math
from dataclasses import replace

import pytest

from retrograde.data.tree import ROOT_PARENT, End, Tree, Turn, shared_length

FIRST = Turn(ROOT_PARENT, 0, (1, 2, 3), (1, 2, 3), (4, 5), (-0.1, -0.2), 0, 0)
LAST = Turn(0, 5, (6,), (6,), (7,), (-0.3,), 0, 0, 1.0, End.FINISHED)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"action": (), "logprobs": ()}, "at least one action token"),
        ({"logprobs": (-0.1,)}, "1 logprobs for 2 tokens"),
        ({"logprobs": (-0.1, math.nan)}, "finite and at most 0"),
        ({"logprobs": (-0.1, -math.inf)}, "finite and at most 0"),
        ({"logprobs": (-0.1, 0.5)}, "finite and at most 0"),
        ({"reward": math.nan}, "a reward is a finite number: got nan; use End.FAILED"),
        ({"reward": math.inf}, "a reward is a finite number"),
        ({"end": End.MERGED}, "merged_into goes with end=MERGED: got None"),
        ({"merged_into": 1}, "merged_into goes with end=MERGED: got 1 with end=None"),
        ({"merged_into": 1, "end": End.FINISHED}, "merged_into goes with end=MERGED"),
    ],
)
def test_a_turn_that_makes_no_sense_is_refused(change, match):
    with pytest.raises(ValueError, match=match):
        replace(FIRST, **change)


def test_rounding_above_a_probability_of_one_is_allowed():
    assert replace(FIRST, logprobs=(-0.1, 1e-4)).logprobs == (-0.1, 1e-4)


@pytest.mark.parametrize(
    ("turns", "match"),
    [
        ((FIRST,), "turn 0 is a leaf without an end"),
        ((FIRST, replace(LAST, parent=1)), "turn 1 has parent 1; parents must precede"),
        ((FIRST, replace(LAST, parent=2)), "turn 1 has parent 2"),
        ((FIRST, replace(LAST, parent=-2)), "turn 1 has parent -2"),
        ((replace(FIRST, shared=1, end=End.FINISHED),), "first turn and shares 1 tokens"),
        ((FIRST, replace(LAST, shared=6)), "turn 1 shares 6 tokens; its parent holds 5"),
        ((FIRST, replace(LAST, shared=-1)), "turn 1 shares -1 tokens"),
        ((replace(FIRST, end=End.TRUNCATED), LAST), "continues turn 0, which ended: truncated"),
        ((replace(FIRST, grown_in=2), replace(LAST, grown_in=1)), "round 1, before its parent"),
    ],
)
def test_a_tree_that_makes_no_sense_is_refused(turns, match):
    with pytest.raises(ValueError, match=match):
        Tree(turns)


def merged(into, parent=0):
    return replace(LAST, parent=parent, shared=0, reward=0.0, end=End.MERGED, merged_into=into)


@pytest.mark.parametrize(
    "turns",
    [
        (FIRST, LAST, merged(2)),
        (FIRST, LAST, merged(3)),
        (FIRST, LAST, merged(-1)),
        (FIRST, LAST, merged(0)),
        (replace(FIRST, end=End.FINISHED), merged(0, ROOT_PARENT), merged(0, 0)),
    ],
    ids=["itself", "later", "none", "its parent", "a turn that ended"],
)
def test_a_turn_is_merged_into_an_earlier_sibling_only(turns):
    with pytest.raises(ValueError, match=r"no earlier sibling|which ended"):
        Tree(turns)


def test_a_turn_may_be_merged_into_an_earlier_sibling():
    tree = Tree((FIRST, LAST, merged(1)))
    assert tree.leaves == (1, 2)


# 0 ─┬─ 1 ─── 3 (leaf)
#    ├─ 2 (leaf)
#    └─ 5 (leaf)
# 4 (leaf, a second first turn, grown in round 2)
DRAWN = Tree(
    (
        FIRST,
        replace(LAST, end=None, reward=0.5),
        replace(LAST, reward=2.0),
        replace(LAST, parent=1, shared=7, reward=1.0),
        replace(FIRST, end=End.FINISHED, reward=-1.0, grown_in=2),
        replace(LAST, reward=0.25, grown_in=1),
    )
)


def test_leaves_children_depths_and_returns():
    assert DRAWN.leaves == (2, 3, 4, 5)
    assert DRAWN.children == ((1, 2, 5), (3,), (), (), (), ())
    assert DRAWN.depths == (0, 1, 1, 2, 0, 1)
    assert DRAWN.returns == (0.0, 0.5, 2.0, 1.5, -1.0, 0.25)


def test_paths_and_visits():
    assert [DRAWN.path(i) for i in DRAWN.leaves] == [(0, 2), (0, 1, 3), (4,), (0, 5)]
    assert DRAWN.visits == ((2, 0), (2, 2), (3, 0), (3, 1), (3, 3), (4, 4), (5, 0), (5, 5))


def test_the_trunk_is_round_0():
    chain = Tree((FIRST, replace(LAST, end=None), replace(LAST, parent=1, shared=0)))
    grown = Tree((*chain.turns, replace(LAST, grown_in=1)))
    assert chain.trunk == grown.trunk == (0, 1, 2)


def test_contexts_are_put_together_from_what_ancestors_hold():
    # Turn 1 holds 1 2 3 4 5 | 6, and 7. Turn 3 shares all of it and was shown 6 behind it.
    assert DRAWN.context(1) == (1, 2, 3, 4, 5, 6)
    assert DRAWN.context(3) == (1, 2, 3, 4, 5, 6, 7, 6)
    assert [DRAWN.appends(i) for i in range(6)] == [False, True, True, True, False, True]
    # Cut in the middle of the answer, of the own tokens, and of the ancestor's tokens.
    for shared, expected in ((6, (1, 2, 3, 4, 5, 6, 6)), (5, (1, 2, 3, 4, 5, 6)),
                             (4, (1, 2, 3, 4, 6)), (1, (1, 6)), (0, (6,))):  # fmt: skip
        turns = (FIRST, replace(LAST, end=None), replace(LAST, parent=1, shared=shared))
        assert Tree(turns).context(2) == expected
        assert not Tree(turns).appends(2)


def test_history_is_flat_whatever_was_shown():
    turns = (FIRST, replace(LAST, end=None), replace(LAST, parent=1, shared=0, fresh=(9,)))
    assert Tree(turns).context(2) == (9,)
    assert Tree(turns).history(2) == (1, 2, 3, 4, 5, 6, 7, 6)
    assert Tree(turns).history(0) == (1, 2, 3)
    # A turn that was shown more than what was new adds what was new alone.
    turns = (FIRST, replace(LAST, end=None, fresh=(3, 6)), replace(LAST, parent=1, shared=0))
    assert Tree(turns).history(2) == (1, 2, 3, 4, 5, 6, 7, 6)


def test_a_thousand_turns_take_memory_linear_in_their_distinct_tokens():
    # Everything is shown at every turn: contexts alone are 10 million tokens.
    turns = [Turn(ROOT_PARENT, 0, (0,) * 10, (0,) * 10, (1,) * 10, (-0.1,) * 10, 0, 0)]
    for i in range(1, 1000):
        end = End.FINISHED if i == 999 else None
        turns.append(
            Turn(i - 1, 20 * i, (2,) * 10, (2,) * 10, (1,) * 10, (-0.1,) * 10, 0, 0, 0.0, end)
        )
    tree = Tree(tuple(turns))
    assert sum(len(turn.fresh) + len(turn.action) for turn in tree.turns) == 20 * 1000
    assert len(tree.context(999)) == 20 * 999 + 10
    assert tree.context(999) == tree.history(999)
    assert tree.depths[999] == 999
    assert len(tree.path(999)) == 1000


@pytest.mark.parametrize(
    ("before", "context", "expected"),
    [
        ((), (), 0),
        ((), (1,), 0),
        ((1, 2), (1, 2), 2),
        ((1, 2), (1, 2, 3), 2),
        ((1, 2, 3), (1, 2), 2),
        ((1, 2, 3), (1, 9, 3), 1),
        ((1, 2), (9, 2), 0),
    ],
)
def test_shared_length(before, context, expected):
    assert shared_length(before, context) == expected

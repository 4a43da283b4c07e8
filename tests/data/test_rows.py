from dataclasses import replace

import pytest
import torch

from retrograde.data.batch import ActionTokens
from retrograde.data.rows import Judgement, Row, View, row_of, rows_of
from retrograde.data.tree import ROOT_PARENT, End, Group, Tree, Turn

TREE = Tree(
    (
        Turn(ROOT_PARENT, 0, (1, 2), (1, 2), (3,), (-0.1,), 0, 5),
        Turn(0, 1, (8,), (8,), (4, 5), (-0.2, -0.3), 0, 5, 1.0, End.FINISHED),
        Turn(0, 1, (8,), (8,), (6,), (-0.4,), 1, 6, 0.0, End.FINISHED),
    )
)
GROUP = Group("t", (TREE,))


def test_a_row_for_each_visit_that_trains():
    # Visits: (1, 0), (1, 1), (2, 0), (2, 2). An advantage of 0 still makes a row.
    judgement = Judgement((0.0, 1.0, 2.0, 3.0), (True, False, True, True))
    rows = rows_of([GROUP], [[judgement]])
    assert rows == [
        Row((1, 2), (3,), (-0.1,), 0.0, 0, 0, (5, 0, 0, 1)),
        Row((1, 2), (3,), (-0.1,), 2.0, 0, 0, (5, 0, 0, 2)),
        Row((1, 8), (6,), (-0.4,), 3.0, 1, 0, (6, 0, 0, 2)),
    ]


def test_groups_and_trees_are_numbered():
    judgement = Judgement((0.0,) * 4, (False, False, False, True))
    rows = rows_of([GROUP, Group("u", (TREE, TREE))], [[judgement], [judgement] * 2])
    assert [row.group for row in rows] == [0, 1, 1]
    assert [row.rollout for row in rows] == [(6, 0, 0, 2), (6, 1, 0, 2), (6, 1, 1, 2)]


@pytest.mark.parametrize(
    "judged",
    [
        [],
        [[]],
        [[Judgement((0.0,) * 3, (True,) * 3)]],
        [[Judgement((0.0,) * 4, (True,) * 3)]],
    ],
    ids=["no group", "no tree", "too few visits", "advantages and marks differ"],
)
def test_judgements_must_fit(judged):
    with pytest.raises(ValueError, match=r"shorter|longer"):
        rows_of([GROUP], judged)


def test_one_turn_as_a_row_in_each_view():
    place = (5, 0, 0, 1)
    assert row_of(TREE, 1, 0.5, View.EXACT, place).context == (1, 8)
    assert row_of(TREE, 1, 0.5, View.FLAT_SAMPLED, place).context == (1, 2, 3, 8)
    assert row_of(TREE, 1, 0.5, View.FLAT_RECOMPUTED, place).context == (1, 2, 3, 8)


def rows_for_tokens():
    return [
        Row((1,), (3, 4), (-0.1, -0.2), 1.5, 0, 0, (0, 0, 0, 7)),
        Row((1,), (5,), (-0.3,), -0.5, 1, 0, (0, 0, 0, 9)),
        Row((1,), (6, 7), (-0.4, -0.5), 0.25, 2, 0, (0, 0, 0, 7)),
    ]


def test_tokens_of_rows_by_hand():
    tokens = ActionTokens.of(rows_for_tokens())
    torch.testing.assert_close(tokens.behaviour_logp, -torch.tensor([0.1, 0.2, 0.3, 0.4, 0.5]))
    assert tokens.advantage.tolist() == [1.5, 1.5, -0.5, 0.25, 0.25]
    # Rows 0 and 2 belong to one rollout and are two turns of it.
    assert tokens.turn.tolist() == [0, 0, 1, 2, 2]
    assert tokens.rollout.tolist() == [0, 0, 1, 0, 0]
    assert (tokens.num_turns, tokens.num_rollouts) == (3, 2)
    assert tokens.reference_logp is None


def test_some_of_the_tokens_keep_their_numbers():
    tokens = ActionTokens.of(rows_for_tokens())
    kept = tokens.at(torch.tensor([2, 3]))
    assert kept.turn.tolist() == [1, 2]
    assert kept.rollout.tolist() == [1, 0]
    assert kept.advantage.tolist() == [-0.5, 0.25]
    assert (kept.num_turns, kept.num_rollouts) == (3, 2)
    by_mask = tokens.at(torch.tensor([False, False, True, True, False]))
    assert torch.equal(by_mask.behaviour_logp, kept.behaviour_logp)


def test_a_reference_is_cut_along():
    tokens = ActionTokens.of(rows_for_tokens())
    kept = replace(tokens, reference_logp=torch.arange(5.0)).at(torch.tensor([4, 0]))
    assert kept.reference_logp.tolist() == [4.0, 0.0]


def test_tokens_of_no_rows():
    tokens = ActionTokens.of([])
    assert tokens.behaviour_logp.tolist() == tokens.advantage.tolist() == []
    assert (tokens.num_turns, tokens.num_rollouts) == (0, 0)

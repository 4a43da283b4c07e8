"""GRPO on flat histories: mistakes M1 and M2 of RTPO, arXiv:2608.18682, section 3.1, by hand."""

import math

import pytest
import torch

from retrograde.algorithms.grpo import grpo
from retrograde.algorithms.grpo_flat import grpo_flat
from retrograde.data.batch import ActionTokens
from retrograde.data.rows import View, rows_of
from retrograde.data.tree import ROOT_PARENT, End, Group, Tree, Turn


def rollout(reward):
    """Two turns under a window that forgets the first answer.

    turn 0   shown 7 8       says 20
    turn 1   shown 7 8 30    says 22        (flat: 7 8 20 30)
    """
    return Tree(
        (
            Turn(ROOT_PARENT, 0, (7, 8), (7, 8), (20,), (math.log(0.5),), 0, 0),
            Turn(0, 2, (30,), (30,), (22,), (math.log(0.4),), 0, 0, reward, End.FINISHED),
        )
    )


GROUP = Group("t", (rollout(1.0), rollout(0.0)))


def rows(algorithm):
    return rows_of([GROUP], [algorithm.credit(GROUP, 0)], algorithm.view)


def test_only_the_contexts_differ_from_grpo():
    # Returns 1, 0: mean 1/2, sample deviation .70711; .5 / (.70711 + .000001) = .707106.
    exact, flat = rows(grpo(rollouts=2)), rows(grpo_flat(rollouts=2))
    assert [row.advantage for row in flat] == pytest.approx([0.707106] * 2 + [-0.707106] * 2)
    assert [row.advantage for row in flat] == [row.advantage for row in exact]
    assert [row.context for row in exact] == [(7, 8), (7, 8, 30)] * 2
    assert [row.context for row in flat] == [(7, 8), (7, 8, 20, 30)] * 2


def test_the_mistake_is_seen_in_one_ratio_and_not_in_the_other():
    # On the flat history the second answer has probability .5; it was sampled with .4.
    # M2 keeps .4: ratio 1.25, above 1 + .2, so with A > 0 the token is clipped at once.
    # M1 recomputes: .5 / .5 = 1.
    assert grpo_flat(behaviour="sampled").view is View.FLAT_SAMPLED
    assert grpo_flat().view is View.FLAT_RECOMPUTED
    sampled = [row for row in rows(grpo_flat(rollouts=2, behaviour="sampled")) if row.turn == 1]
    loss = grpo_flat().loss
    now = torch.tensor([math.log(0.5)] * 2)
    tokens = ActionTokens.of(sampled)
    assert loss.ratios(now, tokens).tolist() == pytest.approx([1.25, 1.25])
    assert loss.statistics(now, tokens)["clipped"] == 1.0


def test_equal_arguments_give_equal_algorithms():
    assert grpo_flat(rollouts=8) == grpo_flat() != grpo()
    with pytest.raises(ValueError, match="rollouts"):
        grpo_flat(rollouts=1)

"""N1: a turn is trained under the context it was sampled under, or it is trained wrongly.

The policy here sees a bag of tokens: its logits are the sum of one table row for each token
of its context. It is shown the last observation alone. Under the flat history the same action
has another probability, and there are two ways to get that wrong:

M1 recomputes the log-probabilities on the flat history before the first step. The ratio is 1,
so nothing looks wrong. M2 keeps the sampler's, and the ratio starts away from 1.
"""

from dataclasses import replace

import pytest
import torch

from retrograde.credit.sibling_mean import SiblingMean
from retrograde.data.rows import View, rows_of
from retrograde.data.tree import ROOT_PARENT, Tree
from retrograde.losses.policy import Level, PolicyLoss
from retrograde.rollouts.plans import Fork

from .growth import Actor, exact_tokens, expected_gradient, phase
from .mdp import STATE, Policy, one_letter_words, random_world, turn_gradient
from .measured import SUM, Gradients

TURN = 1
SHAPE = NUM_TURNS, NUM_STATES, NUM_ACTIONS = (2, 2, 3)
VOCABULARY = NUM_ACTIONS + NUM_STATES


def bag_policy():
    """Shown one state token, the policy uses that token's row at every turn."""
    features = torch.zeros(*SHAPE[:2], 1, NUM_ACTIONS, VOCABULARY, NUM_ACTIONS)
    for state in range(NUM_STATES):
        features[:, state, 0, :, NUM_ACTIONS + state] = torch.eye(NUM_ACTIONS)
    flat = features.double().flatten(-2)
    return Policy(flat, one_letter_words(NUM_ACTIONS))


def bag_score(theta_D, rows):
    """log-probability of each row's one token under exactly the row's context."""
    table = theta_D.view(VOCABULARY, NUM_ACTIONS)
    places = [
        [token if token < STATE else NUM_ACTIONS + token - STATE for token in row.context]
        for row in rows
    ]
    logits = torch.stack([table[place].sum(0) for place in places])
    chosen = torch.tensor([row.action[0] for row in rows])
    return logits.log_softmax(-1).gather(-1, chosen.unsqueeze(-1)).squeeze(-1)


WORLD = random_world(31, SHAPE)
POLICY = bag_policy()
THETA_D = POLICY.random(5)
ACTOR = Actor(WORLD, POLICY, THETA_D)
EXACT_D = turn_gradient(WORLD, POLICY, THETA_D, THETA_D, TURN)


def recomputed(rows):
    scores = bag_score(THETA_D, rows).tolist()
    return [replace(row, behaviour_logp=(logp,)) for row, logp in zip(rows, scores, strict=True)]


def grown():
    return phase(ACTOR, ACTOR, TURN, Fork(0, TURN - 1, 2))


def every_row(view):
    """The rows of everything that can be sampled."""
    judged = ((groups, [SiblingMean()(group, 1) for group in groups]) for _, groups in grown())
    return [row for groups, judgements in judged for row in rows_of(groups, judgements, view)]


def first_ratios(rows, level=Level.TOKEN):
    return PolicyLoss(ratio=level).ratios(bag_score(THETA_D, rows), exact_tokens(rows))


def gradient(view, revised=lambda rows: rows):
    return expected_gradient(
        grown(), SiblingMean(), SUM, bag_score, THETA_D, view=view, revised=revised
    )


def test_rows_carry_what_the_sampler_was_given():
    for _, (group,) in grown():
        (tree,) = group.trees
        siblings = [i for i, turn in enumerate(tree.turns) if turn.grown_in == 1]
        rows = rows_of([group], [SiblingMean()(group, 1)])
        assert [row.context for row in rows] == [tree.turns[i].fresh for i in siblings]
        assert all(len(row.context) == 1 for row in rows)
        flat = rows_of([group], [SiblingMean()(group, 1)], View.FLAT_SAMPLED)
        first, action = tree.turns[0].fresh, tree.turns[0].action
        assert [row.context for row in flat] == [(*first, *action, *row.context) for row in rows]


@pytest.mark.parametrize("level", Level)
def test_the_first_ratio_is_one_at_every_level(level):
    # At the level of a turn it is the geometric mean that is plotted in the paper.
    ratio = first_ratios(every_row(View.EXACT), level)
    assert (ratio - 1).abs().max() <= 1e-12


def test_the_gradient_is_that_of_the_policy_that_acted():
    torch.testing.assert_close(gradient(View.EXACT), EXACT_D / 2, atol=1e-12, rtol=0)
    assert EXACT_D.norm() > 1e-2


def test_control_m1_cannot_be_seen_in_the_ratio_and_is_wrong():
    assert (first_ratios(recomputed(every_row(View.FLAT_RECOMPUTED))) - 1).abs().max() <= 1e-12
    wrong_D = gradient(View.FLAT_RECOMPUTED, recomputed)
    assert Gradients(wrong_D, EXACT_D).residue > 0.1
    # It moves rows of the table that the acting policy never looked at.
    never_shown = slice(0, NUM_ACTIONS)
    assert EXACT_D.view(VOCABULARY, NUM_ACTIONS)[never_shown].abs().max() == 0
    assert wrong_D.view(VOCABULARY, NUM_ACTIONS)[never_shown].abs().max() > 1e-3


def test_control_m2_starts_away_from_one_and_is_wrong():
    ratio = first_ratios(every_row(View.FLAT_SAMPLED))
    assert (ratio - 1).abs().max() > 0.5
    assert Gradients(gradient(View.FLAT_SAMPLED), EXACT_D).residue > 0.1


def test_control_m2_clips_before_the_first_step():
    for view, some in ((View.EXACT, False), (View.FLAT_SAMPLED, True)):
        rows = every_row(view)
        seen = SUM.statistics(bag_score(THETA_D, rows), exact_tokens(rows))
        assert (seen["clipped"] > 0) == some


def test_where_everything_is_shown_the_views_agree():
    for _, (group,) in grown():
        (tree,) = group.trees
        whole = Tree(
            tuple(
                turn if turn.parent == ROOT_PARENT else replace(turn, shared=2)
                for turn in tree.turns
            )
        )
        judged = [SiblingMean()(replace(group, trees=(whole,)), 1)]
        exact, flat, sampled = (
            rows_of([replace(group, trees=(whole,))], judged, view) for view in View
        )
        assert exact == flat == sampled
        assert all(len(row.context) == 3 for row in exact)

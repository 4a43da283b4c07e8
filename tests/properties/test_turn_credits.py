"""Laws of the credits of turns, on trees of any shape."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings

from retrograde.credit.anchor import AnchorRelative
from retrograde.credit.brevity import Brevity
from retrograde.credit.first_success import FirstSuccess
from retrograde.credit.next_reward import NextReward
from retrograde.credit.turn_score import TurnScore
from retrograde.credit.turn_share import TurnShare
from retrograde.data.tree import End, Group, Tree

from .forests import groups

CREDITS = (
    *(AnchorRelative(), AnchorRelative(similarity=0.5), AnchorRelative(scale=False)),
    *(TurnShare(), Brevity(), Brevity("flat"), NextReward(), NextReward(0)),
    *(FirstSuccess(), TurnScore(), TurnScore(normalise=False)),
)


def changed(group, **fields):
    """The group with turns whose fields are functions of the turn."""
    return Group(
        group.task,
        tuple(
            Tree(
                tuple(
                    replace(turn, **{name: of(turn) for name, of in fields.items()})
                    for turn in tree.turns
                )
            )
            for tree in group.trees
        ),
    )


def with_scores(group):
    """Each turn's reward as its score."""
    return changed(group, score=lambda turn: turn.reward)


@pytest.mark.parametrize("credit", CREDITS, ids=repr)
@settings(max_examples=30)
@given(group=groups)
def test_every_visit_is_judged_and_failed_rollouts_never_train(credit, group):
    scored = with_scores(group)
    judged = credit(scored, 0)
    assert len(judged) == len(scored.trees)
    for tree, judgement in zip(scored.trees, judged, strict=True):
        both = zip(tree.visits, judgement.advantage_V, judgement.trains_V, strict=True)
        for (leaf, _), advantage, trains in both:
            assert math.isfinite(advantage)
            assert trains or advantage == 0
            assert not (trains and tree.turns[leaf].end is End.FAILED)


@pytest.mark.parametrize("credit", CREDITS, ids=repr)
@settings(max_examples=30)
@given(group=groups)
def test_what_failed_rollouts_earned_changes_nothing(credit, group):
    """Only a failed leaf's own reward and score: what came before it belongs to others as well."""
    scored = with_scores(group)

    def spoilt(sound):
        return lambda turn: 0.75 if turn.end is End.FAILED else sound(turn)

    spoiled = changed(
        scored, reward=spoilt(lambda turn: turn.reward), score=spoilt(lambda turn: turn.score)
    )
    assert credit(spoiled, 0) == credit(scored, 0)


@pytest.mark.parametrize(
    "credit", [AnchorRelative(), TurnShare(), Brevity(), NextReward(), FirstSuccess()], ids=repr
)
@settings(max_examples=30)
@given(group=groups)
def test_where_nothing_is_earned_nothing_is_learned(credit, group):
    idle = changed(group, reward=lambda _: 0.0, score=lambda _: 0.0)
    assert all(not any(judgement.advantage_V) for judgement in credit(idle, 0))


@settings(max_examples=30)
@given(group=groups)
def test_shares_of_a_group_add_up_to_nothing(group):
    judged = TurnShare()(group, 0)
    assert sum(sum(judgement.advantage_V) for judgement in judged) == pytest.approx(0.0, abs=1e-6)

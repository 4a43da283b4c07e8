"""Unbranched rollouts for tests of credits, and what a credit says of them."""

import pytest

from retrograde.data.evidence import NO_EVIDENCE
from retrograde.data.tree import ROOT_PARENT, End, Group, Tree, Turn

UNSAID = (None,) * 99


def chain(*rewards, end=End.FINISHED, scores=UNSAID, tokens=(), told=(), grown_in=0):
    """One turn for each reward; `tokens` of each action, `told` before each turn."""
    last = len(rewards) - 1
    return Tree(
        tuple(
            Turn(
                parent=i - 1 if i else ROOT_PARENT,
                shared=0,
                fresh=(9,),
                observation=told[i] if told else (9,),
                action=(1,) * (tokens[i] if tokens else 1),
                logprobs=(-1.0,) * (tokens[i] if tokens else 1),
                grown_in=grown_in,
                policy_version=0,
                reward=reward,
                end=end if i == last else None,
                score=scores[i],
            )
            for i, reward in enumerate(rewards)
        )
    )


def scored(*scores, **how):
    """A chain without rewards whose turns have these scores."""
    return chain(*(0.0,) * len(scores), scores=scores, **how)


def judged(credit, *trees, evidence=NO_EVIDENCE):
    """For each tree: the advantage of each visit that trains, None for those that do not."""
    return [
        [a if trains else None for a, trains in zip(*judgement[:2], strict=True)]
        for judgement in credit(Group("t", trees), 0, evidence)
    ]


def near(expected, tolerance=1e-4):
    """Nested lists that agree to four places; None only with None."""
    return [
        [None if a is None else pytest.approx(a, abs=tolerance) for a in each] for each in expected
    ]

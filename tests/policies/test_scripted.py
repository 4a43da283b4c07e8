"""The policy that says what it is told to."""

import pytest

from retrograde.policies.protocol import Answer, Sampling
from retrograde.policies.scripted import ScriptedPolicy


async def test_it_plays_its_script_with_a_seed_for_each_answer():
    policy = ScriptedPolicy(lambda context, seed: (*context, seed), logp=-0.5)
    answers = await policy.sample([(1,), (2, 3)], Sampling(), seed=10)
    assert answers == [
        Answer((1, 10), (-0.5, -0.5), stopped=True),
        Answer((2, 3, 11), (-0.5, -0.5, -0.5), stopped=True),
    ]
    scores = await policy.score([(1,), (2, 3)], [answer.ids for answer in answers])
    assert scores == [list(answer.logprobs) for answer in answers]


async def test_an_answer_that_is_too_long_is_cut_and_has_not_stopped():
    policy = ScriptedPolicy(lambda _context, _seed: (1, 2, 3))
    (answer,) = await policy.sample([(0,)], Sampling(max_new_tokens=2), 0)
    assert answer == Answer((1, 2), (-1.0, -1.0), stopped=False)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"temperature": -0.1}, "temperature: at least 0 .* got -0.1"),
        ({"temperature": float("nan")}, "temperature"),
        ({"temperature": float("inf")}, "temperature"),
        ({"max_new_tokens": 0}, "max_new_tokens: at least 1 .* got 0"),
    ],
)
def test_sampling_that_cannot_be_done_is_refused(options, said):
    with pytest.raises(ValueError, match=said):
        Sampling(**options)

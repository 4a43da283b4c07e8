"""What is drawn, and what is written down about it."""

import copy
import math

import pytest
import torch

from retrograde.backends.choice import Choice
from retrograde.losses.policy import PolicyLoss
from retrograde.ops.cut import Cut
from retrograde.policies.protocol import Sampling

from .test_sampler import CONTEXTS, as_rows, gap
from .tiny import ARCHITECTURES, architecture, learner, policy

CPU = torch.device("cpu")
PROBS = (0.2, 0.5, 0.1, 0.2)
LOGITS = torch.tensor(PROBS).log()


def drawn(sampling, luck):
    choice = Choice(sampling, torch.tensor([luck], dtype=torch.float64))
    rows = len(luck)
    at = torch.arange(rows)
    return choice(LOGITS.expand(rows, 4), torch.zeros(rows, dtype=torch.long), at)


def test_luck_points_into_the_sum_of_probabilities():
    # Sums: 0.2, 0.7, 0.8, 1.0
    found = drawn(Sampling(1.0, 6), [0.0, 0.19, 0.21, 0.69, 0.75, 0.99])
    assert found.token_B.tolist() == [0, 0, 1, 1, 2, 3]
    assert found.logp_B.tolist() == pytest.approx([math.log(PROBS[i]) for i in (0, 0, 1, 1, 2, 3)])
    entropy = -sum(p * math.log(p) for p in PROBS)
    assert found.entropy_B.tolist() == pytest.approx([entropy] * 6)


def test_what_is_cut_off_is_never_drawn():
    # Left: 0.2, 0.5, 0.2 of 0.9; sums 0.222, 0.778, 1.
    found = drawn(Sampling(1.0, 4, Cut(top_k=2)), [0.21, 0.23, 0.79, 0.999])
    assert found.token_B.tolist() == [0, 1, 3, 3]
    assert found.logp_B.tolist() == pytest.approx(
        [math.log(2 / 9), math.log(5 / 9), math.log(2 / 9), math.log(2 / 9)]
    )
    entropy = -(4 / 9 * math.log(2 / 9) + 5 / 9 * math.log(5 / 9))
    assert found.entropy_B.tolist() == pytest.approx([entropy] * 4)


def test_without_temperature_the_likeliest_is_taken_whatever_is_cut():
    found = drawn(Sampling(0.0, 2, Cut(top_k=1)), [0.0, 0.99])
    assert found.token_B.tolist() == [1, 1]
    assert found.logp_B.tolist() == pytest.approx([math.log(0.5)] * 2)


def test_luck_is_thrown_by_seed_and_by_answer():
    one, other = (Choice.of(Sampling(1.0, 5), 3, seed, CPU).luck_CT for seed in (1, 2))
    assert one.shape == (3, 5)
    assert torch.equal(one, Choice.of(Sampling(1.0, 5), 3, 1, CPU).luck_CT)
    assert not torch.isin(one, other).any()
    assert len(one.unique()) == 15


@pytest.mark.parametrize("cut", [Cut(top_k=3), Cut(top_p=0.7), Cut(min_p=0.2)])
@pytest.mark.parametrize("name", ARCHITECTURES)
async def test_the_learner_finds_what_was_sampled_from_a_cut_distribution(name, cut):
    made = architecture(name, dtype=torch.float32)
    for answers in (
        await policy(made).sample(CONTEXTS, Sampling(0.8, 8, cut), 1),
        await heavy(made).sample(CONTEXTS, Sampling(0.8, 8, cut), 1),
    ):
        rows = as_rows(CONTEXTS, answers)
        owner = learner(copy.deepcopy(made), temperature=0.8, cut=cut)
        assert gap(rows, owner.score(rows)) < 1e-5
        assert owner.step(rows, PolicyLoss())["logp_difference/max"] < 1e-5
        # The control: a learner that knows of no cut finds other numbers.
        assert gap(rows, learner(made, temperature=0.8).score(rows)) > 1e-2


def heavy(made):
    acting = policy(made)
    acting.lean = None
    return acting


async def test_an_answer_does_not_hang_on_its_company():
    made = architecture("qwen3", dtype=torch.float32)
    together = await policy(made).sample(CONTEXTS, Sampling(1.0, 8), 7)
    backwards = policy(made, max_tokens_per_microbatch=30)
    backwards.lean = None  # many refills, each with other company
    apart = await backwards.sample(CONTEXTS, Sampling(1.0, 8), 7)
    assert [a.ids for a in together] == [a.ids for a in apart]

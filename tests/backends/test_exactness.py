"""Training on tries is training: for every algorithm the same losses and the same weights."""

import copy
import random
from dataclasses import replace

import pytest
import torch

from retrograde.algorithms.registry import ALGORITHMS
from retrograde.backends import layout
from retrograde.backends.critic import SharedCritic
from retrograde.backends.layout import Layout
from retrograde.backends.route import Flat, Packed

from .test_packed import MANY, blind, family, way  # noqa: F401 - a fixture
from .tiny import ARCHITECTURES, architecture, learner
from .tiny import rows as some_rows

STEPS = 3


def shared_rows(seed):
    """Rows of one update whose contexts fork from one another."""
    chance = random.Random(seed)
    contexts, actions = family(chance, 10)
    return [
        replace(
            row,
            context=context,
            action=action,
            behaviour_logp=tuple(-0.5 - chance.random() for _ in action),
            target=tuple(chance.random() for _ in action),
            values=tuple(chance.random() for _ in action),
            entropies=tuple(chance.random() for _ in action),
        )
        for row, context, action in zip(some_rows(10, seed=seed), contexts, actions, strict=True)
    ]


def trained(made, algorithm, *, flat, light=False):
    """Metrics of some steps, and the weights at their end."""
    made = copy.deepcopy(made)
    critic = None
    if algorithm.critic is not None and algorithm.critic.shared:
        critic = SharedCritic(made, algorithm.critic, pad=0, max_tokens_per_microbatch=64)
    owner = learner(
        made, keep_reference=algorithm.loss.kl > 0, critic=critic, max_tokens_per_microbatch=64
    )
    owner.route = Flat(made, 0) if flat else Packed(made, 0)
    if not flat:
        owner.route.is_light = light
    metrics = [owner.step(shared_rows(seed), algorithm.loss) for seed in range(STEPS)]
    return metrics, {name: p.detach() for name, p in made.named_parameters()}


def alike(one, other, tolerance):
    (metrics, weights), (expected, theirs) = one, other
    for mine, yours in zip(metrics, expected, strict=True):
        assert mine == pytest.approx(yours, rel=tolerance, abs=tolerance)
    for name, weight in weights.items():
        largest = float(theirs[name].abs().max())
        torch.testing.assert_close(weight, theirs[name], rtol=0, atol=tolerance * largest)


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_every_algorithm_learns_the_same_on_tries(name):
    algorithm = ALGORITHMS[name]()
    made = architecture("qwen3")
    flat = trained(made, algorithm, flat=True)
    assert flat[0][0]["grad_norm"] > 0
    alike(trained(made, algorithm, flat=False), flat, 1e-7)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_architecture_learns_the_same_on_tries(name):
    algorithm = ALGORITHMS["grpo"]()
    made = architecture(name)
    flat = trained(made, algorithm, flat=True)
    alike(trained(made, algorithm, flat=False), flat, 1e-7)
    if name != "gemma3":
        alike(trained(made, algorithm, flat=False, light=True), flat, 1e-7)


def test_rows_that_share_nothing_are_run_flat():
    made = architecture("qwen3")
    contexts, actions = [(1, 2, 3), (4, 5, 6, 7)], [(1,), (2, 3)]
    route = Packed(made, 0)
    assert isinstance(route.fitting(contexts, actions), Flat)
    # 5 + 5 tokens, of which 6 are distinct: 10 / 6 > 1.15
    assert route.fitting([(1, 2, 3, 4), (1, 2, 3, 4)], [(1, 5), (2, 5)]) is route
    assert isinstance(Flat(made, 0).fitting(contexts, actions), Flat)


@pytest.mark.usefixtures("way")
def test_a_mistake_in_who_sees_whom_would_show(monkeypatch):
    """The control: tokens see the first of their piece, over and over."""
    algorithm, made = ALGORITHMS["grpo"](), architecture("qwen3")
    flat = trained(made, algorithm, flat=True)
    real = Layout.of.__func__
    monkeypatch.setattr(Layout, "of", classmethod(lambda cls, *asked: blind(real(cls, *asked))))
    with pytest.raises(AssertionError):
        alike(trained(made, algorithm, flat=False), flat, 1e-4)


def test_what_merges_partial_results_would_show(monkeypatch):
    """The control: a trie in which the end of a node is not seen by what is below it."""
    algorithm, made = ALGORITHMS["grpo"](), architecture("qwen3")
    flat = trained(made, algorithm, flat=True)
    monkeypatch.setattr(layout, "CALL", -MANY)
    real = Layout.of.__func__

    def cut(cls, *asked):
        true = real(cls, *asked)
        return replace(true, calls=tuple(c for c in true.calls if c.causal))

    monkeypatch.setattr(Layout, "of", classmethod(cut))
    with pytest.raises(AssertionError):
        alike(trained(made, algorithm, flat=False), flat, 1e-4)

"""What each algorithm's update is in expectation, and that it is measured rightly."""

import asyncio
import random
import runpy
from pathlib import Path

import pytest
import torch

from retrograde.algorithms.registry import ALGORITHMS
from retrograde.data.tree import Group
from retrograde.policies.protocol import Sampling
from retrograde.rendering.history import Renderer
from retrograde.rollouts.grow import Grower
from retrograde.rollouts.plans import Chains, Moment

from .chances import at_random, estimated_outcomes, every_outcome
from .estimators import Trial, estimated, settings, small
from .measured import flat_gradients
from .measured import setting as measured_setting
from .nursery import Nursery
from .spoken import Letters, Spoken, Tabular

ROOT = Path(__file__).parents[2]
STEADY, STOPPING, WORDY = settings()


def lots(seed):
    """Draws; two with the same seed draw the same."""
    rng = random.Random(seed)
    return lambda weights: rng.choices(range(len(weights)), weights)[0]


# --- chance ---------------------------------------------------------------------------------


def two_coins(draw):
    """Heads twice ends it; the second coin is tossed only after heads."""
    return 0 if draw((0.75, 0.25)) == 0 else 1 + draw((0.5, 0.0, 0.5))


def test_every_outcome_once_with_its_chance():
    # Tails 3/4; heads 1/4 times a half each; what cannot happen does not.
    assert list(every_outcome(two_coins)) == [(0.75, 0), (0.125, 1), (0.125, 3)]


def test_outcomes_are_counted():
    # A run with uniform choices sees 2 x 1 ways or 2 x 2, half the time each: 3 in the mean.
    assert estimated_outcomes(two_coins, 2000) == pytest.approx(3, abs=0.1)


def test_random_outcomes_have_their_chances():
    found = list(at_random(lambda draw: (two_coins(draw),), 4000, seed=1))
    shares = [sum(value == (i,) for value in found) / 4000 for i in range(4)]
    # Standard errors are below .007.
    assert shares == pytest.approx([0.75, 0.125, 0, 0.125], abs=0.03)
    assert len(set(map(id, found))) == 3


# --- growing --------------------------------------------------------------------------------


def as_told(group):
    """All of a group that both ways of growing must agree on."""
    return [
        [
            (
                *(turn.parent, turn.action, turn.logprobs, turn.reward, turn.end, turn.score),
                *(turn.grown_in, turn.merged_into, turn.entropies, tree.context(i)[-1]),
            )
            for i, turn in enumerate(tree.turns)
        ]
        for tree in group.trees
    ]


async def both_grown(algorithm, setting, seed):
    trial = Trial(algorithm, setting)
    nursery = Nursery(trial.actor, lots(seed))
    policy = Tabular(trial.actor, lots(seed))
    grower = Grower(Spoken(trial.actor), Renderer(Letters(), "markov"), policy, Sampling())
    quick, real = [Group("world")], [Group("world")]
    for grown_in in range(20):
        moment = Moment(1, seed)
        forks = algorithm.grow(quick, grown_in, moment)
        assert forks == algorithm.grow(real, grown_in, moment)
        if not any(forks):
            break
        further = [Group("world")] * (len(forks) - len(quick))
        quick = nursery.grow(quick + further, forks, grown_in)
        real = await grower.grow(real + further, forks, grown_in, seed)
    await grower.forget()
    return quick, real


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("setting", [STEADY, WORDY], ids=["steady", "wordy"])
def test_the_nursery_grows_what_the_grower_grows(name, setting):
    for options in ({}, {"continuations": 2, "siblings": 3}):
        for seed in range(5):
            quick, real = asyncio.run(both_grown(small(name, **options), setting, seed))
            assert [as_told(group) for group in quick] == [as_told(group) for group in real]
            assert any(group.trees for group in quick)


# --- measuring ------------------------------------------------------------------------------


def test_group_mean_is_what_the_theory_page_measures():
    # The same expectation by the other way of enumerating; (G - 1) / G of the exact gradient,
    # over the 3 tokens of a rollout.
    found = estimated(Trial(small("grpo", scale=False), STEADY))
    s = measured_setting(STEADY.world, 2, STEADY.policy)._replace(now_D=STEADY.theta_D)
    s = s._replace(now=Trial(small("grpo"), STEADY).actor)
    theirs = flat_gradients(s, 4, small("grpo").loss.mean)
    torch.testing.assert_close(found.mean_D, theirs.estimated_D, atol=1e-12, rtol=0)
    assert found.scale == pytest.approx(3 / 4 / 3, abs=1e-12)
    assert found.bias < 1e-12


def test_lots_find_what_enumeration_finds():
    trial = Trial(small("rtpo"), WORDY)
    exact = estimated(trial, most=10**9)
    drawn = estimated(trial, most=0, runs=4000)
    assert exact.runs is None
    assert exact.error == 0
    gap = float((drawn.mean_D - exact.mean_D).norm()) / exact.scale / float(exact.exact_D.norm())
    assert gap < 3 * drawn.error
    assert drawn.noise == pytest.approx(exact.noise, rel=0.1)


def test_a_phase_with_sums_is_exact():
    found = estimated(Trial(small("rtpo", mean="sum"), WORDY))
    assert found.bias < 1e-12
    assert found.scale == pytest.approx(1 / 2, abs=1e-12)


def test_dividing_by_the_deviation_is_a_bias_and_so_is_dividing_by_length():
    plain = estimated(Trial(small("grpo", scale=False), STEADY))
    scaled = estimated(Trial(small("grpo"), STEADY))
    assert plain.bias < 1e-12
    assert scaled.bias > 0.01
    for mean in ("token", "rollout"):
        found = estimated(Trial(small("grpo", scale=False, mean=mean), STOPPING))
        assert found.bias > 0.02


# --- the page -------------------------------------------------------------------------------


def test_the_page_has_every_algorithm_and_its_numbers_are_computed_again():
    script = runpy.run_path(str(ROOT / "scripts" / "estimators.py"))
    page = (ROOT / "docs" / "estimators.md").read_text(encoding="utf-8").splitlines()
    again = "run `python scripts/estimators.py` and look at what changed"
    for variant in script["variants"]():
        rows = [line for line in page if line.startswith(f"| {script['label'](variant)} |")]
        assert len(rows) == 4, again  # side by side, and in each of three worlds
        if not isinstance(script["trial"](variant, STEADY).algorithm.grow, Chains):
            continue  # what takes longer than a moment is left to the script
        found = estimated(script["trial"](variant, STEADY))
        assert script["line"](script["label"](variant), *script["cells"](found)) in rows, again

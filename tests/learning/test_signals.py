"""From random weights to the known best policy, within a stated number of turns."""

import asyncio

import pytest
from tests.trainer.runs import Notes

from retrograde.algorithms.grpo import grpo
from retrograde.algorithms.rtpo import rtpo
from retrograde.algorithms.rtpo_plus import rtpo_plus
from retrograde.backends.learner import TransformersLearner
from retrograde.backends.sampler import TransformersPolicy
from retrograde.policies.protocol import Sampling
from retrograde.rendering.history import Renderer
from retrograde.rollouts.grow import Grower
from retrograde.trainer.actors import LocalActors
from retrograde.trainer.evaluation import evaluate
from retrograde.trainer.loop import train
from retrograde.trainer.ports import Ports
from retrograde.trainer.run import Run, State

from .worlds import Signals, chat, fresh_model

PROMPTS = 8
BUDGET = 4500
"""Turns. An answer is one of 13 tokens, so that chance is right at both turns in 1 of 169."""
METHODS = {
    "rtpo": rtpo(siblings=8, learning_rate=1e-2, warmup_steps=5),
    "rtpo_plus": rtpo_plus(siblings=8, learning_rate=1e-2, warmup_steps=5),
    "grpo": grpo(rollouts=8, learning_rate=1e-2, warmup_steps=5),
}


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("method", METHODS)
def test_the_best_policy_is_reached(method, seed):
    start, end, state, _ = asyncio.run(learned(METHODS[method], seed))
    assert start["eval/success"] < 0.1
    assert end["eval/success"] >= 0.9
    assert end["eval/success_greedy"] == 1.0
    assert state.env_steps < BUDGET * 1.2


async def learned(algorithm, seed, world=None, budget=BUDGET):
    """Evaluations before and after, the state at the end, and the groups of all iterations."""
    world, model, state, notes = world or Signals(), fresh_model(seed), State(), Notes()
    renderer = Renderer(chat(), world.context)
    policy = TransformersPolicy(model, chat().stop_ids)
    sampling = Sampling(1.0, world.max_new_tokens)
    grower = Grower(world, renderer, policy, sampling)
    ports = Ports(
        tasks=lambda step, page: [f"train-{seed}-{step}-{page}-{i}" for i in range(PROMPTS)],
        actors=LocalActors(grower, policy),
        learner=TransformersLearner(model, algorithm.update, pad=0),
        journal=notes,
        evaluate=lambda: evaluate(
            world, renderer, policy, episodes=64, max_new_tokens=world.max_new_tokens
        ),
        checkpoint=lambda _state: None,
    )
    await train(algorithm, Run(max_env_steps=budget, seed=seed, eval_every=0), state, ports)
    await grower.forget()
    (_, start), *_, (_, end) = notes.evaluations
    return start, end, state, notes.grown

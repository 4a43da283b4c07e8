"""Half precision loses no small step, and computing layers again changes no number."""

import copy

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import AutoModelForCausalLM

from retrograde.backends.critic import TransformersCritic
from retrograde.backends.model_options import Lora, ModelOptions
from retrograde.backends.models import load_model
from retrograde.backends.optimizer import Optimizer
from retrograde.backends.recommended import PRETRAINED
from retrograde.backends.sampler import TransformersPolicy
from retrograde.backends.weights import ready_to_learn, recompute_layers
from retrograde.data.rows import Row
from retrograde.losses.policy import PolicyLoss
from retrograde.policies.protocol import Sampling
from retrograde.schedules.update import Update

from .architectures import KINDS, directory, model
from .tiny import learner, rows

HALF = ModelOptions(dtype="bfloat16")
AGAIN = ModelOptions(gradient_checkpointing=True)


def test_steps_too_small_for_half_precision_add_up():
    """bfloat16 numbers from 0.5 on are 2^-8 = 0.0039 apart, so 0.5 - 0.0001 rounds to 0.5.

    Adam's step along a constant gradient is the learning rate: 30 of 0.0001 come to 0.003, which
    is nearer to 0.0039 than to 0. Below 0.5 numbers are 0.00195 apart: 0.5 - 0.003 lies between
    0.49805 and 0.49609, nearest to 0.49609 + 0.00195 * 0.46, so it rounds to 0.49609 or 0.49805.
    """
    kept = nn.Parameter(torch.tensor([0.5], dtype=torch.bfloat16))
    lost = nn.Parameter(kept.detach().clone())
    optimizer = Optimizer([("w", kept)], Update(learning_rate=1e-4, warmup_steps=0))
    adam = torch.optim.AdamW([lost], lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0)
    for step in range(30):
        for each, weight in ((optimizer, kept), (adam, lost)):
            each.zero_grad()
            weight.sum().backward()
            each.step()
        if step == 5:  # 0.0006 so far, less than half of 0.00195
            assert kept.item() == 0.5
    assert kept.item() == pytest.approx(0.497, abs=0.00196 / 2)
    assert lost.item() == 0.5


def test_gradients_of_half_precision_are_added_up_in_single():
    """1 + 4 * 2^-10: each of the four alone is lost on a bfloat16 of 1, whose next is 2^-7 on."""
    weight = nn.Parameter(torch.tensor([1.0], dtype=torch.bfloat16))
    optimizer = Optimizer([("w", weight)], Update(learning_rate=1.0, max_grad_norm=1e9))
    for factor in (1.0, *[2.0**-10] * 4):
        (weight.float() * factor).sum().backward()
    assert optimizer.step()["grad_norm"] == 1 + 2.0**-8
    optimizer.zero_grad()
    assert optimizer.step()["grad_norm"] == 0


def test_single_precision_has_no_copies():
    weight = nn.Parameter(torch.ones(2))
    optimizer = Optimizer([("w", weight)], Update(learning_rate=1.0))
    assert optimizer._exact["w"] is weight
    assert set(optimizer.state()) == {"steps"}


def test_a_model_in_half_precision_is_loaded_trained_and_saved_as_such(tmp_path):
    loaded = load_model(directory("qwen3", tmp_path / "a"), PRETRAINED, HALF)
    assert {p.dtype for p in loaded.model.parameters()} == {torch.bfloat16}
    owner = learner(loaded.model, update=Update(learning_rate=1e-6, warmup_steps=0))
    policy = TransformersPolicy(loaded.model, loaded.chat.stop_ids)
    exact = {name: weight.clone() for name, weight in owner.optimizer._exact.items()}
    for version in range(1, 4):
        assert owner.step(rows(6), PolicyLoss())["grad_norm"] > 0
        policy.load(owner.weights(), version)
    policy.load(owner.weights(), version + 1)  # no rounded weight has moved: that may be so
    for name, weight in owner.optimizer._exact.items():
        assert weight.dtype is torch.float32
        assert not torch.equal(weight, exact[name]), name
        assert torch.equal(weight.bfloat16(), dict(loaded.model.named_parameters())[name])
    loaded.save(tmp_path / "b")
    plain = AutoModelForCausalLM.from_pretrained(tmp_path / "b")
    assert plain.dtype is torch.bfloat16
    for name, weight in plain.named_parameters():
        assert torch.equal(weight, owner.weights()[name])


def test_a_learner_in_half_precision_that_is_put_away_goes_on_bit_by_bit(tmp_path):
    batch = rows(8)
    update = Update(learning_rate=1e-4, warmup_steps=2)
    owner = learner(model("qwen2", 24, dtype=torch.bfloat16), update=update)
    for _ in range(3):
        owner.step(batch, PolicyLoss())
    save_file(owner.state(), tmp_path / "state.safetensors")
    again = learner(copy.deepcopy(owner.model), update=update)
    again.load_state(load_file(tmp_path / "state.safetensors"))
    forgetful = learner(copy.deepcopy(owner.model), update=update)
    forgetful.optimizer.steps = 3
    for _ in range(4):
        expected = owner.step(batch, PolicyLoss())
        assert again.step(batch, PolicyLoss()) == expected
        forgetful.step(batch, PolicyLoss())
    exact = [each.optimizer._exact for each in (owner, again, forgetful)]
    assert all(torch.equal(exact[0][name], exact[1][name]) for name in exact[0])
    assert any(not torch.equal(exact[0][name], exact[2][name]) for name in exact[0])


async def test_in_half_precision_sampling_and_learning_agree_to_its_rounding(tmp_path):
    """Logits here are near 10, where bfloat16 numbers are 0.06 apart."""
    loaded = load_model(directory("llama", tmp_path), PRETRAINED, HALF)
    contexts = [tuple(range(20, 50)), tuple(range(60, 75))]
    answers = await TransformersPolicy(loaded.model, loaded.chat.stop_ids).sample(
        contexts, Sampling(1.0, 16), 0
    )
    asked = [
        Row(context, answer.ids, answer.logprobs, 1.0, 0, 0, (0, 0, i, i))
        for i, (context, answer) in enumerate(zip(contexts, answers, strict=True))
    ]
    metrics = learner(loaded.model).step(asked, PolicyLoss())
    assert 0 < metrics["logp_difference/max"] < 0.3


@pytest.mark.parametrize("lora", [Lora(), Lora(rank=2)], ids=["whole", "adapter"])
@pytest.mark.parametrize("kind", KINDS)
def test_layers_computed_again_give_the_same_gradients(kind, lora, tmp_path):
    source = directory(kind, tmp_path)
    found = []
    for again in (False, True):
        options = ModelOptions(gradient_checkpointing=again, lora=lora)
        made = load_model(source, PRETRAINED, options).model
        counted = []
        layer = made.base_model.layers[0].mlp
        layer.register_forward_pre_hook(lambda *_, counted=counted: counted.append(1))
        owner = learner(made, keep_reference=True)
        assert not any(m.training for m in owner.reference.modules())
        counted.clear()  # of what was tried to see how the model attends
        owner.score(rows(6))
        assert len(counted) == 1
        metrics = owner.step(rows(6), PolicyLoss())
        assert len(counted) == (3 if again else 2)  # score, forward, and once more on the way back
        found.append((metrics, {n: p.grad for n, p in made.named_parameters()}))
    (one, gradients), (other, theirs) = found
    assert one == other
    for name, gradient in gradients.items():
        if gradient is None:
            assert theirs[name] is None
        else:
            assert torch.equal(gradient, theirs[name]), name


def test_a_critic_computes_its_layers_again_too(tmp_path):
    made = load_model(directory("qwen3", tmp_path), PRETRAINED, AGAIN).model
    critic = TransformersCritic(made, Update(learning_rate=1e-2), pad=0)
    assert critic.transformer.layers[0].training
    assert not critic.transformer.layers[0].mlp.training


def test_answers_are_sampled_without_computing_twice(tmp_path):
    loaded = load_model(directory("qwen3", tmp_path), PRETRAINED, AGAIN)
    ready_to_learn(loaded.model)
    policy = TransformersPolicy(loaded.model, loaded.chat.stop_ids)
    assert not any(module.training for module in policy.model.modules())


def test_dropout_and_computing_again_do_not_go_together():
    made = model("llama", 24)
    made.config.attention_dropout = 0.1
    with pytest.raises(ValueError, match=r"without dropout is needed.*attention_dropout=0\.1"):
        recompute_layers(made)

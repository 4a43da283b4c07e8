"""A critic values the states it is asked about, and learns as its loss says."""

import copy
import random
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file

from retrograde.backends.critic import SharedCritic, TransformersCritic, critic_of
from retrograde.losses.policy import Level, Mean, PolicyLoss
from retrograde.losses.value import ValueLoss
from retrograde.schedules.update import Update

from .tiny import KINDS, learner, model, rows

UPDATE = Update(learning_rate=1e-2, warmup_steps=0, max_grad_norm=1e9)
NEAR = {"atol": 1e-6, "rtol": 0}
PARTS = {"atol": 1e-8, "rtol": 0}


def own(made, *, update=UPDATE, **options) -> TransformersCritic:
    critic = TransformersCritic(made, update, pad=0, **options)
    return _opinionated(critic)


def shared(made, loss, max_tokens=1 << 20) -> SharedCritic:
    critic = SharedCritic(made, loss, pad=0, max_tokens_per_microbatch=max_tokens)
    return _opinionated(critic)


def _opinionated(critic):
    """A head of 0 passes no gradient on and would agree with any other."""
    chance = torch.Generator().manual_seed(7)
    weight = torch.randn(critic.head.weight.shape, generator=chance) * 0.3
    critic.head.weight.data.copy_(weight)
    critic.head.bias.data.fill_(0.125)
    return critic


def taught(batch, loss, *, seed=3):
    """Rows with values and targets for each state."""
    chance = random.Random(seed)

    def each(row):
        return tuple(chance.uniform(-1, 1) for _ in range(loss.states(row)))

    return [replace(row, values=each(row), target=each(row)) for row in batch]


def by_hand(made, head, row):
    """Values before each token of a row: alone, no padding, one token after another."""
    found = []
    for t in range(len(row.action)):
        prefix = torch.tensor([[*row.context, *row.action[:t]]])
        state = made(prefix, output_hidden_states=True).hidden_states[-1][0, -1]
        found.append(head(state.to(head.weight.dtype)))
    return torch.cat(found)


BOTH = [ValueLoss(clip=0.3), ValueLoss(Level.TURN, clip=0.3)]
LEVELS = pytest.mark.parametrize("loss", BOTH, ids=["tokens", "turns"])


@LEVELS
@pytest.mark.parametrize("kind", KINDS)
def test_a_value_is_of_the_state_before_its_token(kind, loss):
    made, batch = model(kind, dtype=torch.float64), rows(7)
    for critic in (own(made), shared(made, loss), own(made, max_tokens_per_microbatch=40)):
        for row, said in zip(batch, critic.values(batch, loss), strict=True):
            expected = by_hand(made, critic.head, row)[: loss.states(row)]
            torch.testing.assert_close(torch.tensor(said).double(), expected.detach(), **NEAR)


@LEVELS
def test_it_does_not_know_what_will_be_said(loss):
    """Were values read one position later, the last token would be known to the last state."""
    made, (row, *_) = model(), [row for row in rows(9) if len(row.action) > 1]
    other = replace(row, action=(*row.action[:-1], (row.action[-1] + 1) % 24))
    for critic in (own(made), shared(made, loss)):
        assert critic.values([row], loss) == critic.values([other], loss)
        elsewhere = replace(row, context=(*row.context[:-1], (row.context[-1] + 1) % 24))
        assert critic.values([row], loss) != critic.values([elsewhere], loss)


@LEVELS
def test_before_the_first_step_everything_is_worth_0(loss):
    made = model()
    for critic in (
        TransformersCritic(made, UPDATE, pad=0),
        SharedCritic(made, loss, pad=0, max_tokens_per_microbatch=99),
    ):
        assert {v for said in critic.values(rows(5), loss) for v in said} == {0.0}


@LEVELS
def test_the_gradient_is_that_of_the_loss_written_out(loss):
    made, batch = model(dtype=torch.float64), taught(rows(8), loss)
    critic = own(made)
    copied, head = copy.deepcopy(made), copy.deepcopy(critic.head)
    total, clipped = [], 0
    for row in batch:
        said = by_hand(copied, head, row)[: loss.states(row)]
        for v, old, target in zip(said, row.values, row.target, strict=True):
            free = (v - target) ** 2
            bound = (v.clamp(old - 0.3, old + 0.3) - target) ** 2
            total.append(0.5 * torch.maximum(free, bound))
            clipped += bool(bound > free)
    expected = torch.stack(total).mean()
    expected.backward()
    metrics = critic.step(batch, loss)
    assert 0 < clipped < len(total)
    assert metrics["value/loss"] == pytest.approx(float(expected.detach()))
    assert metrics["value/clip_ratio"] == pytest.approx(clipped / len(total))
    torch.testing.assert_close(critic.head.weight.grad, head.weight.grad, **NEAR)
    mine = dict(critic.transformer.named_parameters())
    for name, parameter in copied.base_model.named_parameters():
        torch.testing.assert_close(mine[name].grad, parameter.grad, **NEAR)


@LEVELS
def test_splitting_changes_neither_loss_nor_gradient(loss):
    made, batch = model(dtype=torch.float64), taught(rows(9), loss)
    whole = own(made)
    expected = whole.step(batch, loss)
    for budget in (20, 45):
        parts = own(made, max_tokens_per_microbatch=budget)
        assert parts.step(batch, loss) == pytest.approx(expected)
        for name, parameter in whole.optimizer.parameters.items():
            mine = parts.optimizer.parameters[name]
            torch.testing.assert_close(mine.grad, parameter.grad, **PARTS)


def test_a_critic_of_its_own_leaves_the_policy_alone():
    made = model()
    before = {name: p.clone() for name, p in made.named_parameters()}
    critic, loss = own(made), ValueLoss()
    for _ in range(3):
        critic.step(taught(rows(6), loss), loss)
    for name, parameter in made.named_parameters():
        assert parameter.grad is None
        assert torch.equal(parameter, before[name])
    moved = dict(critic.transformer.named_parameters())
    assert any(not torch.equal(moved[name], p) for name, p in made.base_model.named_parameters())


@LEVELS
def test_a_shared_critic_moves_the_policys_transformer_in_its_steps(loss):
    """Its gradient is the policy's plus coefficient times the critic's, in one backward."""
    loss = replace(loss, shared=True, coefficient=0.25)
    batch = taught(rows(8, advantages=(1.0, 0.0, -0.5)), loss)
    policy_loss = PolicyLoss(mean=Mean.TOKEN)

    def gradients(critic, budget=1 << 20):
        made = critic.model
        owner = learner(made, update=UPDATE, critic=critic, max_tokens_per_microbatch=budget)
        metrics = owner.step(batch, policy_loss)
        return metrics, {n: p.grad for n, p in made.named_parameters()}, critic.head.weight.grad

    fresh = model(dtype=torch.float64)
    metrics, both, head = gradients(shared(copy.deepcopy(fresh), loss))
    alone = copy.deepcopy(fresh)
    learner(alone, update=UPDATE).step(batch, policy_loss)
    critic = own(fresh)
    seen = critic.step(batch, loss)
    assert metrics["value/loss"] == pytest.approx(seen["value/loss"])
    assert metrics["value/clip_ratio"] == pytest.approx(seen["value/clip_ratio"])
    assert metrics["value/explained_variance"] == seen["value/explained_variance"]
    torch.testing.assert_close(head, 0.25 * critic.head.weight.grad, **NEAR)
    theirs = {f"model.{name}": p for name, p in critic.transformer.named_parameters()}
    for name, parameter in alone.named_parameters():
        extra = theirs[name].grad if name in theirs else 0.0
        torch.testing.assert_close(both[name], parameter.grad + 0.25 * extra, **NEAR)
    _, split, _ = gradients(shared(copy.deepcopy(fresh), loss, 40), 40)
    for name, gradient in both.items():
        torch.testing.assert_close(split[name], gradient, **PARTS)


def test_it_learns_what_it_is_taught():
    loss = ValueLoss(clip=None)
    batch = taught(rows(8), loss)
    made = model()
    critic = TransformersCritic(made, Update(learning_rate=3e-3, warmup_steps=0), pad=0)
    for _ in range(150):
        critic.step(batch, loss)
    told = critic.values(batch, loss)
    recalled = [replace(row, values=said) for row, said in zip(batch, told, strict=True)]
    assert loss.figures(recalled)["value/explained_variance"] > 0.9


@LEVELS
@pytest.mark.parametrize("is_shared", [False, True])
def test_a_critic_that_is_put_away_and_taken_out_goes_on_bit_by_bit(loss, is_shared, tmp_path):
    loss = replace(loss, shared=is_shared)
    batch = taught(rows(8), loss)
    update = Update(learning_rate=1e-3, warmup_steps=5)

    def parts(made):
        critic = critic_of(loss, made, update, pad=0)
        return critic, learner(made, update=update, critic=critic if is_shared else None)

    def step(critic, owner):
        return owner.step(batch, PolicyLoss()) | critic.step(batch, loss)

    critic, owner = parts(model())
    for _ in range(3):
        step(critic, owner)
    save_file(critic.state(), tmp_path / "critic.safetensors")
    save_file(owner.state(), tmp_path / "learner.safetensors")
    again = parts(copy.deepcopy(owner.model))
    again[0].load_state(load_file(tmp_path / "critic.safetensors"))
    again[1].load_state(load_file(tmp_path / "learner.safetensors"))
    forgetful = parts(copy.deepcopy(owner.model))
    forgetful[1].load_state(load_file(tmp_path / "learner.safetensors"))
    assert again[0].values(batch, loss) == critic.values(batch, loss)
    assert forgetful[0].values(batch, loss) != critic.values(batch, loss)
    for _ in range(2):
        assert step(*again) == step(critic, owner)
    assert again[0].values(batch, loss) == critic.values(batch, loss)
    assert torch.equal(again[0].head.weight, critic.head.weight)


def test_half_precision_is_valued_in_single():
    made = model(dtype=torch.bfloat16)
    critic = TransformersCritic(made, UPDATE, pad=0)
    assert critic.head.weight.dtype is torch.float32
    loss = ValueLoss()
    assert critic.step(taught(rows(4), loss), loss)["value/grad_norm"] > 0


def test_the_rate_of_a_critic_is_a_multiple_of_the_policys():
    loss = ValueLoss(speed=4.0)
    update = Update(learning_rate=1e-3, warmup_steps=2)
    critic = critic_of(loss, model(), update, pad=0)
    batch = taught(rows(4), loss)
    rates = [critic.step(batch, loss)["value/learning_rate"] for _ in range(3)]
    assert rates == pytest.approx([2e-3, 4e-3, 4e-3])
    assert critic_of(None, model(), update, pad=0) is None


def test_the_head_is_not_published():
    made = model()
    critic = shared(made, ValueLoss(shared=True))
    owner = learner(made, critic=critic)
    assert owner.weights().keys() == dict(made.named_parameters()).keys()

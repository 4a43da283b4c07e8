"""An optimizer step is the gradient of the loss over all rows, however it is arrived at."""

import copy
import math
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file

from retrograde.data.rows import Row
from retrograde.losses.policy import Level, Mean, PolicyLoss
from retrograde.schedules.update import Update

from .tiny import KINDS, learner, model, rows

UNCLIPPED = Update(learning_rate=1e-2, warmup_steps=0, max_grad_norm=1e9)
HALFWAY = 1e-6
"""Even a float64 model of transformers takes its norms in float32."""
MEANS = (Mean.TOKEN, Mean.TURN, Mean.SUM, Mean.ROLLOUT)


def gradient(owner) -> torch.Tensor:
    return torch.cat([p.grad.flatten() for p in owner.model.parameters()])


def weights(owner) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in owner.model.parameters()])


def stepped(batch, loss, *, dtype=torch.float64, kind="qwen3", **options):
    """One step from fresh weights: metrics and gradient."""
    owner = learner(
        model(kind, dtype=dtype), update=UNCLIPPED, keep_reference=loss.kl > 0, **options
    )
    return owner.step(batch, loss), gradient(owner)


def by_hand(batch, loss, kind="qwen3") -> tuple[float, torch.Tensor]:
    """The loss and its gradient, row by row: no padding, no batches, nothing left out."""
    made = model(kind, dtype=torch.float64)
    lengths = [len(row.action) for row in batch]
    of_rollout = [
        sum(len(other.action) for other in batch if other.rollout == row.rollout) for row in batch
    ]
    rollouts = len({row.rollout for row in batch})
    total = torch.zeros((), dtype=torch.float64)
    for row, length, shared in zip(batch, lengths, of_rollout, strict=True):
        logits = made(torch.tensor([[*row.context, *row.action]])).logits[0]
        every = logits[len(row.context) - 1 : -1].log_softmax(-1)
        logp = every[torch.arange(length), torch.tensor(row.action)]
        # What is recorded is kept in single precision.
        ratio = (logp - torch.tensor(row.behaviour_logp, dtype=torch.float32).double()).exp()
        bounded = ratio.clamp(1 - loss.clip_low, 1 + loss.clip_high)
        each = -torch.minimum(ratio * row.advantage, bounded * row.advantage)
        if loss.kl:
            reference = logp.detach()  # the weights have not moved yet
            each = each + loss.kl * ((reference - logp).exp() - 1 + logp - reference)
        share = {
            Mean.TOKEN: 1 / sum(lengths),
            Mean.TURN: 1 / (length * len(batch)),
            Mean.SUM: 1 / len(batch),
            Mean.ROLLOUT: 1 / (shared * rollouts),
        }[loss.mean]
        total = total + share * each.sum()
    total.backward()
    return float(total.detach()), torch.cat([p.grad.flatten() for p in made.parameters()])


def near(found, expected, tolerance):
    torch.testing.assert_close(found, expected, atol=tolerance, rtol=0)


@pytest.fixture
def batch():
    """Rows of rollouts of several turns; some are twins, and some have nothing to say."""
    made = rows(12, advantages=(1.0, -0.5, 0.0, 0.25))
    made = [replace(row, rollout=(0, 0, i // 3, 0)) for i, row in enumerate(made)]
    twin = replace(made[0], advantage=-2.0, behaviour_logp=tuple(-2.9 for _ in made[0].action))
    return [*made, twin, replace(made[4], advantage=0.125)]


@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_is_that_of_the_loss_written_out(batch, kind, mean):
    loss = PolicyLoss(mean=mean)
    metrics, found = stepped(batch, loss, kind=kind)
    value, expected = by_hand(batch, loss, kind)
    assert expected.abs().max() > 1e-2
    near(found, expected, HALFWAY)
    assert metrics["policy_loss"] == pytest.approx(value, abs=HALFWAY)
    assert metrics["grad_norm"] == pytest.approx(float(expected.norm()))


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
@pytest.mark.parametrize("mean", MEANS)
def test_splitting_changes_neither_loss_nor_gradient(batch, mean, dtype, tolerance):
    loss = PolicyLoss(mean=mean)
    whole, expected = stepped(batch, loss, dtype=dtype)
    for budget in (20, 37, 90):
        metrics, found = stepped(batch, loss, dtype=dtype, max_tokens_per_microbatch=budget)
        near(found, expected, tolerance)
        same = set(whole) - {"grad_norm", "policy_loss"}
        assert {k: metrics[k] for k in same} == pytest.approx({k: whole[k] for k in same}, rel=1e-5)
        assert metrics["policy_loss"] == pytest.approx(whole["policy_loss"], abs=tolerance)


@pytest.mark.parametrize("level", Level)
def test_splitting_keeps_every_ratio_whole(batch, level):
    loss = PolicyLoss(ratio=level)
    batch = [replace(row, advantage=(1.0, -0.5, 0.0)[row.rollout[2] % 3]) for row in batch]
    _, expected = stepped(batch, loss)
    assert expected.abs().max() > 1e-2
    for budget in (20, 37):
        near(stepped(batch, loss, max_tokens_per_microbatch=budget)[1], expected, 1e-10)


def test_the_order_of_rows_does_not_matter(batch):
    _, expected = stepped(batch, PolicyLoss())
    near(stepped(batch[::-1], PolicyLoss())[1], expected, 1e-10)


def test_nor_does_the_padding_token(batch):
    said = batch[0].action[0]
    _, expected = stepped(batch, PolicyLoss())
    near(stepped(batch, PolicyLoss(), pad=said)[1], expected, 1e-10)


def test_twins_are_run_once_and_count_each(batch):
    metrics, _ = stepped(batch, PolicyLoss())
    alive = [row for row in batch if row.advantage]
    assert metrics["rows"] == len(batch) == 14
    assert metrics["rows/informative"] == len(alive) == 11
    assert metrics["rows/run"] == len({(row.context, row.action) for row in alive}) == 9
    assert metrics["tokens/trained"] == sum(
        len(action) for _, action in {(row.context, row.action) for row in alive}
    )


def test_rows_without_advantage_are_not_run_but_count_in_the_mean(batch):
    metrics, found = stepped(batch, PolicyLoss())
    alive = [row for row in batch if row.advantage]
    _, without = stepped(alive, PolicyLoss())
    near(found, without * len(alive) / len(batch), HALFWAY)
    assert metrics["rows/run"] < metrics["rows"]


def test_a_penalty_acts_on_rows_without_advantage(batch):
    loss = PolicyLoss(kl=0.5)
    owner = learner(model(dtype=torch.float64), update=UNCLIPPED, keep_reference=True)
    first = owner.step(batch, loss)
    assert first["rows/run"] == len({(row.context, row.action) for row in batch})
    # At the start the penalty is at its least; a step away, rows without advantage pull back.
    silent = [row for row in batch if not row.advantage]
    metrics = owner.step(silent, loss)
    assert metrics["policy_loss"] > 0
    assert gradient(owner).abs().max() > 1e-4


@pytest.mark.parametrize("mean", MEANS)
def test_a_penalty_has_its_gradient_from_the_start_weights(batch, mean):
    loss = PolicyLoss(kl=0.5, mean=mean)
    value, expected = by_hand(batch, loss)
    metrics, found = stepped(batch, loss)
    near(found, expected, HALFWAY)
    assert metrics["policy_loss"] == pytest.approx(value, abs=HALFWAY)


def test_a_penalty_without_a_reference_is_refused(batch):
    with pytest.raises(ValueError, match="keep_reference=True"):
        learner(model()).step(batch, PolicyLoss(kl=0.1))


def test_figures_are_those_of_the_tokens_that_were_run(batch):
    owner = learner(model(dtype=torch.float64))
    alive = [row for row in batch if row.advantage]
    pairs = [
        (now - then, row.advantage)
        for row, logp in zip(alive, owner.score(alive), strict=True)
        for now, then in zip(logp, row.behaviour_logp, strict=True)
    ]
    nats = [-now for logp in owner.score(alive) for now in logp]
    metrics = owner.step(batch, PolicyLoss())
    ratios = [math.exp(gap) for gap, _ in pairs]
    off = [
        (ratio > 1.2 and advantage > 0) or (ratio < 0.8 and advantage < 0)
        for ratio, (_, advantage) in zip(ratios, pairs, strict=True)
    ]
    assert 0 < sum(off) < len(off)
    assert metrics["clip_ratio"] == pytest.approx(sum(off) / len(off))
    assert metrics["ratio/mean"] == pytest.approx(sum(ratios) / len(ratios), rel=1e-5)
    assert metrics["ratio/error_max"] == pytest.approx(max(abs(r - 1) for r in ratios), rel=1e-5)
    assert metrics["surprise"] == pytest.approx(sum(nats) / len(nats))


@pytest.mark.parametrize("poison", [math.nan, math.inf])
def test_a_gradient_that_is_not_finite_leaves_everything_as_it_was(batch, poison):
    owner = learner(model())
    owner.step(batch, PolicyLoss())
    before, state = weights(owner), owner.state()
    bad = [replace(batch[0], advantage=poison), *batch[1:]]
    with pytest.raises(FloatingPointError, match="of optimizer step 1 is"):
        owner.step(bad, PolicyLoss())
    assert torch.equal(weights(owner), before)
    after = owner.state()
    assert state.keys() == after.keys()
    assert all(torch.equal(state[name], after[name]) for name in state)


def test_the_learning_rate_rises_from_its_first_step(batch):
    owner = learner(model(), update=Update(learning_rate=1e-3, warmup_steps=4))
    rates, moves = [], []
    for _ in range(6):
        before = weights(owner)
        rates.append(owner.step(batch, PolicyLoss())["learning_rate"])
        moves.append(float((weights(owner) - before).abs().max()))
    assert rates == pytest.approx([2.5e-4, 5e-4, 7.5e-4, 1e-3, 1e-3, 1e-3])
    # Adam's first step moves a weight by just about its rate.
    assert moves[0] == pytest.approx(2.5e-4, rel=1e-2)
    assert all(move > 0 for move in moves)


def test_a_long_gradient_is_cut_to_its_bound(batch):
    owner = learner(model(), update=replace(UNCLIPPED, max_grad_norm=0.01))
    metrics = owner.step(batch, PolicyLoss())
    assert metrics["grad_norm"] > 0.1  # as it was
    assert float(gradient(owner).norm()) == pytest.approx(0.01, rel=1e-3)


def test_nothing_is_dropped_out_while_learning():
    made = model()
    made.config.attention_dropout = 0.5
    for layer in made.model.layers:
        layer.self_attn.attention_dropout = 0.5
    made.train()
    some = rows(4)
    noisy = made(torch.tensor([some[0].context])).logits
    assert not torch.equal(noisy, made(torch.tensor([some[0].context])).logits)  # it could be
    owner = learner(made)
    assert owner.score(some) == owner.score(some)
    assert not owner.model.training


def test_rows_can_be_given_the_log_probabilities_of_now(batch):
    owner = learner(model())
    fresh = owner.recomputed(batch)
    assert [row.context for row in fresh] == [row.context for row in batch]
    assert owner.step(fresh, PolicyLoss())["ratio/error_max"] < 1e-5
    assert owner.step(fresh, PolicyLoss())["ratio/error_max"] > 1e-3


def test_scores_are_taken_once_for_twins_and_given_to_each(batch):
    owner = learner(model(), temperature=0.7)
    scores = owner.score(batch)
    assert scores[12] == scores[0]
    assert [len(logp) for logp in scores] == [len(row.action) for row in batch]
    alone = owner.score([batch[5]])[0]
    assert scores[5] == pytest.approx(alone, abs=1e-5)


@pytest.mark.parametrize("kl", [0.0, 0.1])
@pytest.mark.parametrize("kind", KINDS)
def test_a_learner_that_is_put_away_and_taken_out_goes_on_bit_by_bit(batch, kind, kl, tmp_path):
    loss = PolicyLoss(kl=kl)
    update = Update(learning_rate=1e-3, warmup_steps=5)

    def fresh(made):
        return learner(made, update=update, keep_reference=kl > 0)

    owner = fresh(model(kind))
    for _ in range(3):
        owner.step(batch, loss)
    save_file(owner.state(), tmp_path / "state.safetensors")
    resumed = fresh(copy.deepcopy(owner.model))
    resumed.load_state(load_file(tmp_path / "state.safetensors"))
    forgetful = fresh(copy.deepcopy(owner.model))
    metrics = [one.step(batch, loss) for one in (owner, resumed, forgetful)]
    assert metrics[0] == metrics[1]
    assert torch.equal(weights(owner), weights(resumed))
    assert metrics[0]["learning_rate"] == pytest.approx(8e-4)
    assert metrics[2]["learning_rate"] == pytest.approx(2e-4)
    assert not torch.equal(weights(owner), weights(forgetful))


def test_the_state_of_a_learner_that_has_not_stepped_can_be_put_away(batch):
    owner, other = learner(model()), learner(model())
    other.load_state(owner.state())
    assert owner.step(batch, PolicyLoss()) == other.step(batch, PolicyLoss())


def test_weights_are_named_as_the_policy_names_them():
    owner = learner(model("smollm"))
    assert owner.weights().keys() == dict(owner.model.named_parameters()).keys()
    assert not any(tensor.requires_grad for tensor in owner.weights().values())


def test_an_open_learning_rate_is_refused():
    with pytest.raises(ValueError, match="learning_rate is None"):
        learner(model(), update=Update())


def test_rows_that_cancel_each_other_take_no_step(batch):
    owner = learner(model())
    owner.step(batch, PolicyLoss())  # there is momentum
    before, state = weights(owner), owner.state()
    pair = owner.recomputed([replace(batch[0], advantage=a) for a in (0.5, -0.5)])
    metrics = owner.step(pair, PolicyLoss())
    assert metrics["grad_norm"] == metrics["learning_rate"] == 0.0
    assert metrics["rows/informative"] == 2
    assert torch.equal(weights(owner), before)
    assert all(torch.equal(state[name], tensor) for name, tensor in owner.state().items())


def test_the_loss_of_rows_of_one_token():
    """Two rows by hand: L = -(1/2) (r1 A1 + r2 A2), r = pi / mu, before clipping sets in."""
    owner = learner(model(dtype=torch.float64))
    row = Row((1, 2), (4,), (-1.0,), 1.0, 0, 0, (0, 0, 0, 0))
    ((now,),) = owner.score([row])
    high, low = now - math.log(1.1), now - math.log(0.9)
    pair = [
        replace(row, behaviour_logp=(high,), advantage=1.0),
        replace(row, behaviour_logp=(low,), advantage=-1.0),
    ]
    metrics = owner.step(pair, PolicyLoss())
    assert metrics["policy_loss"] == pytest.approx(-0.5 * (1.1 - 0.9), abs=1e-6)
    assert metrics["rows/run"] == 1
    assert metrics["ratio/mean"] == pytest.approx(1.0, abs=1e-6)

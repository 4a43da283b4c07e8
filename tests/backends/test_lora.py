"""An adapter is all that trains, all that is published and all that is saved."""

import json
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from retrograde.backends.critic import TransformersCritic
from retrograde.backends.model_options import Lora, ModelOptions
from retrograde.backends.models import ADAPTER_SPEED, load_model, model_directory
from retrograde.backends.recommended import PRETRAINED
from retrograde.backends.sampler import TransformersPolicy
from retrograde.cli.main import main
from retrograde.environments import extras
from retrograde.environments.hop import Hop
from retrograde.losses.policy import PolicyLoss
from retrograde.losses.value import ValueLoss
from retrograde.schedules.update import Update

from .architectures import KINDS, directory
from .test_architectures import COUNTED
from .tiny import learner, rows

RANK = ModelOptions(lora=Lora(rank=4))
PROBE = [(1, 2, 3), (4, 5)], [(6, 7), (8, 9, 10)]
IDS = torch.tensor([[1, 2, 3, 4, 5]])


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return directory("llama", tmp_path_factory.mktemp("base"))


def adapted(source, options=RANK, **more):
    return load_model(source, PRETRAINED, options, **more)


def trained(loaded, steps=3, **options):
    owner = learner(loaded.model, **options)
    for _ in range(steps):
        owner.step(rows(6), PolicyLoss())
    return owner


def logits(model):
    with torch.inference_mode():
        return model(IDS).logits


def plain(source):
    return AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32).eval()


def quiet_peft(make, *given, **options):
    """Peft asks a model by a name that newer transformers warn of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return make(*given, **options)


def in_peft(source, folder):
    return quiet_peft(PeftModel.from_pretrained, plain(source), str(folder)).eval()


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_adapter_trains_and_the_base_stays_bit_by_bit(kind, tmp_path):
    source = directory(kind, tmp_path)
    base, loaded = dict(plain(source).named_parameters()), adapted(source)
    torch.testing.assert_close(logits(loaded.model), logits(plain(source)), atol=0, rtol=0)
    owner = trained(loaded)
    published = owner.weights()
    assert published
    assert all(".lora_A." in name or ".lora_B." in name for name in published)
    assert set(owner.optimizer.parameters) == set(published)
    kept = {
        name.replace(".base_layer", ""): weight
        for name, weight in loaded.model.named_parameters()
        if name not in published
    }
    assert kept.keys() == base.keys()
    assert all(torch.equal(kept[name], base[name]) for name in base)
    assert (logits(loaded.model) - logits(plain(source))).abs().max() > 0.01


async def test_what_is_sampled_from_has_the_adapter_of_the_learner(source):
    """And a learner that published the base, which never changes, would be found out."""
    loaded = adapted(source)
    policy = TransformersPolicy(loaded.model, loaded.chat.stop_ids)
    before = await policy.score(*PROBE)
    owner = trained(loaded)
    assert await policy.score(*PROBE) == before
    policy.load(owner.weights(), 1)
    now = await policy.score(*PROBE)
    fresh = await TransformersPolicy(loaded.model, loaded.chat.stop_ids).score(*PROBE)
    assert now == fresh
    assert now[0][0] != pytest.approx(before[0][0], abs=1e-3)
    base = {n: p for n, p in loaded.model.named_parameters() if "lora" not in n}
    with pytest.raises(ValueError, match="version 2 of the weights equals version 1 bit by bit"):
        policy.load(base, 2)


def test_copies_share_the_base_and_nothing_else(source):
    loaded = adapted(source)
    owner = learner(loaded.model, keep_reference=True)
    policy = TransformersPolicy(loaded.model, loaded.chat.stop_ids)
    critic = TransformersCritic(loaded.model, Update(learning_rate=1e-2), pad=0)
    own = {n: p.data_ptr() for n, p in loaded.model.named_parameters()}
    inner = {f"model.{n}": p for n, p in critic.transformer.named_parameters()}
    for copied in (policy.model, owner.reference):
        theirs = {n: p.data_ptr() for n, p in copied.named_parameters()}
        assert {n for n in own if own[n] != theirs[n]} == set(owner.weights())
    assert {n for n, p in inner.items() if own[n] != p.data_ptr()} == set(owner.weights())


def test_a_critic_of_its_own_has_an_adapter_of_its_own(source):
    loaded, loss = adapted(source), ValueLoss()
    before = logits(loaded.model)
    critic = TransformersCritic(loaded.model, Update(learning_rate=1e-2, warmup_steps=0), pad=0)
    critic.head.weight.data.fill_(0.1)
    batch = [
        replace(row, values=(0.0,) * len(row.action), target=(1.0,) * len(row.action))
        for row in rows(4)
    ]
    for _ in range(2):
        assert critic.step(batch, loss)["value/grad_norm"] > 0
    assert torch.equal(logits(loaded.model), before)
    assert {n.partition(".")[0] for n in critic.optimizer.parameters} == {"transformer", "head"}
    assert all("lora" in n or n.startswith("head") for n in critic.optimizer.parameters)


def test_a_penalty_is_held_against_the_adapter_as_it_began(source, tmp_path):
    """A new one began at the base; one that is taken up again began where it was left."""
    loaded = adapted(source)
    owner = trained(loaded, keep_reference=True)
    assert torch.equal(logits(owner.reference), logits(plain(source)))
    assert owner.step(rows(6), PolicyLoss(kl=0.1))["policy_loss"] != 0
    loaded.save(tmp_path)
    left = logits(loaded.model)
    again = adapted(str(tmp_path), ModelOptions())
    owner = trained(again, keep_reference=True)
    assert torch.equal(logits(owner.reference), left)
    state = owner.state()
    names = {name.partition("/")[2] for name in state if name.startswith("reference/")}
    assert names == set(owner.weights())


def test_plain_peft_gives_the_same_logits(source, tmp_path):
    loaded = adapted(source)
    trained(loaded)
    loaded.save(tmp_path)
    assert {"adapter_config.json", "adapter_model.safetensors", "tokenizer.json"} <= {
        entry.name for entry in tmp_path.iterdir()
    }
    assert not (tmp_path / "model.safetensors").exists()
    settings = json.loads((tmp_path / "adapter_config.json").read_text())
    assert (settings["r"], settings["lora_alpha"], settings["lora_dropout"]) == (4, 8, 0.0)
    theirs = in_peft(source, tmp_path)
    torch.testing.assert_close(logits(theirs), logits(loaded.model), atol=0, rtol=0)
    with theirs.disable_adapter():
        assert (logits(theirs) - logits(loaded.model)).abs().max() > 0.01


def test_an_adapter_is_taken_up_where_it_was_left(source, tmp_path):
    loaded = adapted(source)
    trained(loaded)
    loaded.save(tmp_path / "a")
    again = adapted(str(tmp_path / "a"), ModelOptions())
    assert torch.equal(logits(again.model), logits(loaded.model))
    assert again.chat.stop_ids == loaded.chat.stop_ids
    owner = trained(again)
    assert all("lora" in name for name in owner.weights())
    again.save(tmp_path / "b")
    torch.testing.assert_close(
        logits(in_peft(source, tmp_path / "b")), logits(again.model), atol=0, rtol=0
    )


def test_a_new_adapter_is_that_of_its_seed(source):
    def first(seed):
        model = adapted(source, seed=seed).model
        return next(p for n, p in model.named_parameters() if "lora_A" in n)

    assert torch.equal(first(1), first(1))
    assert not torch.equal(first(1), first(2))


def test_modules_can_be_named(source):
    loaded = adapted(source, ModelOptions(lora=Lora(rank=2, alpha=3.0, targets="q_proj, v_proj")))
    trained_names = {n.split(".")[4] for n, p in loaded.model.named_parameters() if p.requires_grad}
    assert trained_names == {"q_proj", "v_proj"}
    with pytest.raises(ValueError, match=r"model\.lora\.targets 'nowhere'"):
        adapted(source, ModelOptions(lora=Lora(rank=2, targets="nowhere")))


def test_an_adapter_stays_exact_on_a_base_of_half_precision(source):
    loaded = adapted(source, ModelOptions(dtype="bfloat16", lora=Lora(rank=4)))
    kinds = {(("lora" in n), p.dtype) for n, p in loaded.model.named_parameters()}
    assert kinds == {(True, torch.float32), (False, torch.bfloat16)}
    owner = trained(loaded)
    assert not owner.optimizer._rounded()


@pytest.mark.parametrize("init", ["pissa", "olora"])
def test_adapters_that_move_the_base_are_refused(source, init, tmp_path):
    settings = LoraConfig(r=2, target_modules="all-linear", init_lora_weights=init)
    base = plain(source)
    wrapped = quiet_peft(get_peft_model, base, settings)
    moved = dict(base.named_parameters())
    name = "model.layers.0.self_attn.q_proj"
    assert not torch.equal(
        moved[f"{name}.base_layer.weight"], dict(plain(source).named_parameters())[f"{name}.weight"]
    )
    wrapped.save_pretrained(str(tmp_path))
    with pytest.raises(ValueError, match=f"init_lora_weights='{init}', which moves the base"):
        model_directory(str(tmp_path), Hop(), lambda *_: None)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"peft_type": "IA3"}, "an adapter of type LORA is needed, this is IA3"),
        ({"use_dora": True}, "low-rank matrices alone is needed, this one also has use_dora"),
        ({"modules_to_save": ["lm_head"]}, "this one also has modules_to_save"),
        ({"bias": "all"}, "this one also has bias"),
        ({"base_model_name_or_path": None}, "does not name the model that it belongs to"),
        (
            {"base_model_name_or_path": "/nowhere/base"},
            "belongs to the model in /nowhere/base, and",
        ),
    ],
)
def test_adapters_that_cannot_be_trained_on_are_refused(source, changed, said, tmp_path):
    adapted(source).save(tmp_path)
    path = tmp_path / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    with pytest.raises(ValueError, match=said):
        load_model(str(tmp_path), PRETRAINED)


def test_damaged_adapters_and_other_ranks_are_refused(source, tmp_path):
    adapted(source).save(tmp_path)
    with pytest.raises(ValueError, match=r"model\.lora\.rank: the adapter in .* has rank 4, asked"):
        adapted(str(tmp_path), ModelOptions(lora=Lora(rank=8)))
    with pytest.raises(ValueError, match=r"model\.lora\.alpha: the adapter in .* has 8, asked"):
        adapted(str(tmp_path), ModelOptions(lora=Lora(rank=4, alpha=4.0)))
    (tmp_path / "adapter_model.safetensors").unlink()
    with pytest.raises(ValueError, match="its adapter could not be loaded"):
        load_model(str(tmp_path), PRETRAINED)
    (tmp_path / "adapter_config.json").write_text("{")
    with pytest.raises(ValueError, match="is damaged"):
        load_model(str(tmp_path), PRETRAINED)


def test_without_peft_the_command_that_installs_it_is_named(source, monkeypatch):
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"peft is needed .* pip install 'retrograde\[lora\]'"):
        model_directory("embedded", Hop(), lambda *_: None, RANK)  # before any warm start


def test_an_adapter_is_recommended_longer_steps(source):
    _, whole = model_directory(source, Hop(), lambda *_: None)
    _, adapter = model_directory(source, Hop(), lambda *_: None, RANK)
    assert adapter.learning_rate == ADAPTER_SPEED * whole.learning_rate


def run(source, out: Path, *words):
    return main([
        "train", "--model", source, "--environment", COUNTED, "--algorithm", "rtpo",
        "--prompts", "2", "--eval-episodes", "1", "--algorithm.min-signal", "1",
        "--algorithm.learning-rate", "1e-2", "--algorithm.kl", "0.01", "--save-every", "1",
        "--quiet", "--out", str(out), *words,
    ])  # fmt: skip


def figures(out: Path):
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if "seconds" not in k} for line in lines]


def test_a_run_with_an_adapter_resumes_bit_by_bit_and_ends_in_one(source, tmp_path, capsys):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert run(source, whole, "--model.lora.rank", "4", "--steps", "2") == 0
    assert run(source, parts, "--model.lora.rank", "4", "--steps", "1") == 0
    assert main(["train", "--resume", "--steps", "2", "--quiet", "--out", str(parts)]) == 0
    assert figures(parts) == figures(whole)
    last = figures(whole)[-1]
    assert last["update/steps"] > 0
    assert last["sampling/logp_difference/max"] < 1e-5
    ends = [out / "checkpoints/step-000002/adapter_model.safetensors" for out in (whole, parts)]
    one, other = map(load_file, ends)
    assert all(torch.equal(one[name], other[name]) for name in one)
    began = load_file(whole / "checkpoints/step-000001/adapter_model.safetensors")
    assert any(not torch.equal(one[name], began[name]) for name in one)
    in_peft(source, ends[0].parent)
    capsys.readouterr()
    words = ["--environment", COUNTED, "--json", "--episodes", "1"]
    assert main(["evaluate", str(ends[0].parent), *words]) == 0
    assert json.loads(capsys.readouterr().out)["eval/success"] == last["eval/success"]
    capsys.readouterr()
    assert main(["train", "--resume", "--model.lora.rank", "8", "--out", str(parts)]) == 2
    assert "model_settings.lora.rank: the run has 4, asked for is 8" in capsys.readouterr().err
    # The adapter of a run is where another run can begin.
    assert run(str(ends[0].parent), tmp_path / "next", "--steps", "1") == 0
    assert (tmp_path / "next/checkpoints/step-000001/adapter_config.json").exists()

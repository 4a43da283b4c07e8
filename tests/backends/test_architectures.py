"""Models of several architectures, each from a directory to a checkpoint that anybody can read."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from retrograde.backends.learner import TransformersLearner
from retrograde.backends.models import load_model
from retrograde.backends.recommended import PRETRAINED
from retrograde.backends.sampler import TransformersPolicy
from retrograde.cli.main import main
from retrograde.data.message import Message
from retrograde.data.rows import Row
from retrograde.losses.policy import PolicyLoss
from retrograde.policies.protocol import Sampling
from retrograde.schedules.update import Update

from .architectures import KINDS, STOPS, WINDOW, directory

COUNTED = f"{Path(__file__).with_name('counted.py')}:Counted"
NEAR = 1e-5


@pytest.fixture(scope="session", params=KINDS)
def kind(request):
    return request.param


@pytest.fixture(scope="session")
def source(kind, tmp_path_factory):
    return directory(kind, tmp_path_factory.mktemp(kind))


def test_its_stops_are_those_of_its_makers(kind, source):
    loaded = load_model(source, PRETRAINED)
    stops = STOPS[kind]
    assert loaded.chat.stop_ids == set(loaded.tokenizer.convert_tokens_to_ids(stops))
    assert loaded.text([loaded.chat.end_of_turn]) in stops


def test_a_chat_of_three_turns_is_what_its_template_says(source):
    loaded = load_model(source, PRETRAINED)
    chat, words = loaded.chat, loaded.tokenizer
    opening = [Message("system", "You say words."), Message("user", "Say a word. ünï 🙂")]
    whole = [{"role": m.role, "content": m.content} for m in opening]
    ids = [*chat.opening(opening)]
    for answer, heard in (("one", "a"), ("two", "b"), ("three", "c")):
        ids += [*chat.said(answer), *chat.reply([Message("user", heard)])]
        whole += [{"role": "assistant", "content": answer}, {"role": "user", "content": heard}]
    assert ids == words.apply_chat_template(
        whole, tokenize=True, add_generation_prompt=True, return_dict=False
    )


async def test_what_is_sampled_is_scored_alike_before_and_after_a_step(source):
    """Contexts are longer than a window and of unequal lengths; answers share some of them."""
    loaded = load_model(source, PRETRAINED)
    long = loaded.chat.opening([Message("user", "Say a word, and then another one. " * 3)])
    short = loaded.chat.opening([Message("user", "Say.")])
    contexts = [long, short, long, (*long, *long[-20:])]
    assert len(short) > WINDOW
    policy = TransformersPolicy(loaded.model, loaded.chat.stop_ids)
    update = Update(learning_rate=1e-2, warmup_steps=0)
    learner = TransformersLearner(loaded.model, update, pad=loaded.chat.end_of_turn)
    for version in range(2):  # under the first weights, and under those of a step later
        answers = await policy.sample(contexts, Sampling(1.0, 2 * WINDOW), seed=version)
        rows = [
            Row(context, answer.ids, answer.logprobs, (-1.0) ** i, 0, i, (0, 0, i, i))
            for i, (context, answer) in enumerate(zip(contexts, answers, strict=True))
        ]
        for row, logp in zip(rows, learner.score(rows), strict=True):
            assert logp == pytest.approx(row.behaviour_logp, abs=NEAR)
        metrics = learner.step(rows, PolicyLoss())
        assert metrics["logp_difference/max"] < NEAR
        assert metrics["grad_norm"] > 0
        policy.load(learner.weights(), version + 1)
        moved = zip(rows, learner.score(rows), strict=True)
        assert max(abs(r.behaviour_logp[0] - now[0]) for r, now in moved) > 100 * NEAR


def test_a_run_ends_in_a_checkpoint_that_plain_transformers_generates_from(kind, source, tmp_path):
    code = main([
        "train", "--model", source, "--environment", COUNTED, "--algorithm", "rtpo", "--steps", "1",
        "--prompts", "2", "--eval-episodes", "1", "--algorithm.learning-rate", "1e-3",
        "--algorithm.min-signal", "1", "--quiet", "--out", str(tmp_path / "run"),
    ])  # fmt: skip
    assert code == 0
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    last = lines[-1]
    assert last["update/steps"] >= 1
    assert last["first_minibatch/logp_difference/max"] < NEAR
    assert last["sampling/logp_difference/max"] < NEAR
    before, checkpoint = (tmp_path / "run/checkpoints" / f"step-{n:06d}" for n in (0, 1))
    first, final = (load_file(c / "model.safetensors") for c in (before, checkpoint))
    assert any(not torch.equal(first[name], final[name]) for name in final)
    words = AutoTokenizer.from_pretrained(checkpoint)
    plain = AutoModelForCausalLM.from_pretrained(checkpoint)
    assert plain.config.pad_token_id == words.pad_token_id is not None
    ids = words.apply_chat_template(
        [{"role": "user", "content": "Say a word."}], add_generation_prompt=True,
        return_tensors="pt", return_dict=True,
    )  # fmt: skip
    said = plain.generate(**ids, max_new_tokens=12, do_sample=False)[0, ids["input_ids"].shape[1] :]
    assert 1 <= len(said) <= 12
    stops = set(words.convert_tokens_to_ids(STOPS[kind]))
    assert set(plain.generation_config.eos_token_id) == stops
    assert len(said) == 12 or int(said[-1]) in stops

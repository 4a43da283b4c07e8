"""Real pretrained models of two architectures: loaded, spoken to, trained, saved, loaded again."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from retrograde.backends.models import load_model, model_directory
from retrograde.backends.recommended import PRETRAINED
from retrograde.backends.sampler import TransformersPolicy
from retrograde.data.message import Message
from retrograde.environments.hop import Hop
from retrograde.policies.protocol import Sampling

pytestmark = pytest.mark.slow

LIMIT = 1800
"""Seconds after which a run counts as hung; it takes a few minutes."""
COUNTED = f"{Path(__file__).parents[1] / 'backends' / 'counted.py'}:Counted"
NAMES = ("smollm2-135m", "gemma3-270m")
SHORT = ("--prompts", "1", "--eval-episodes", "1", "--steps", "1", "--quiet")


def directory(name: str) -> str:
    return model_directory(name, Hop(), lambda *_: None)[0]


def trained(out: Path, *words: str) -> dict:
    """Run the command as a user would; the last line of its metrics."""
    done = subprocess.run(
        [sys.executable, "-m", "retrograde.cli.main", "train", *words, *SHORT, "--out", str(out)],
        check=False,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stderr
    return json.loads((out / "metrics.jsonl").read_text().splitlines()[-1])


@pytest.mark.parametrize("name", NAMES)
def test_three_turns_are_what_the_template_says(name):
    chat = load_model(directory(name), PRETRAINED).chat
    opening = [Message("system", "Be brief."), Message("user", "Who? ünï 🙂")]
    whole = [{"role": m.role, "content": m.content} for m in opening]
    ids = [*chat.opening(opening)]
    for answer, heard in (("Ada", "Where?"), ("In Rome.", "When?"), ("Now.", "Why?")):
        ids += [*chat.said(answer), *chat.reply([Message("user", heard)])]
        whole += [{"role": "assistant", "content": answer}, {"role": "user", "content": heard}]
    assert ids == chat.tokenizer.apply_chat_template(
        whole, tokenize=True, add_generation_prompt=True, return_dict=False
    )


@pytest.mark.parametrize("name", NAMES)
async def test_it_knows_the_capital_of_france(name):
    """Gemma was not tuned to follow instructions: it goes on with a text instead."""
    loaded = load_model(directory(name), PRETRAINED)
    asked = "What is the capital of France?"
    context = loaded.chat.opening([Message("user", asked)])
    if name.startswith("gemma"):
        text = f"<bos>Question: {asked}\nAnswer:"
        context = tuple(loaded.tokenizer.encode(text, add_special_tokens=False))
    policy = TransformersPolicy(loaded.model, loaded.chat.stop_ids)
    (answer,) = await policy.sample([context], Sampling(0.0, 10), 0)
    assert "Paris" in loaded.chat.decode(answer.ids)


def test_gemma_trains_a_step_and_is_read_by_plain_transformers(tmp_path):
    line = trained(
        tmp_path, "--model", "gemma3-270m", "--environment", COUNTED, "--algorithm", "grpo",
        "--algorithm.rollouts", "4", "--algorithm.min-signal", "1",
    )  # fmt: skip
    assert line["update/steps"] >= 1
    assert line["first_minibatch/logp_difference/max"] < 1e-4
    checkpoint = tmp_path / "checkpoints" / "step-000001"
    model = AutoModelForCausalLM.from_pretrained(checkpoint)
    words = AutoTokenizer.from_pretrained(checkpoint)
    assert words.chat_template
    before = AutoModelForCausalLM.from_pretrained(directory("gemma3-270m")).state_dict()
    after = model.state_dict()
    assert any(not torch.equal(after[name], before[name]) for name in after)
    ids = words("<bos>Question: What is the capital of France?\nAnswer:", add_special_tokens=False,
                return_tensors="pt")  # fmt: skip
    said = model.generate(**ids, max_new_tokens=3, do_sample=False)[0]
    assert "Paris" in words.decode(said)


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ("hop", ["--algorithm.siblings", "2", "--model.max-new-tokens", "12"]),
        (COUNTED, ["--algorithm.siblings", "2", "--algorithm.min-signal", "1"]),
    ],
    ids=["hop", "counted"],
)
def test_an_adapter_on_smollm2(environment, words, tmp_path):
    import warnings

    from peft import PeftModel

    line = trained(
        tmp_path, "--model", "smollm2-135m", "--environment", environment, *words,
        "--model.lora.rank", "4", "--model.gradient-checkpointing",
    )  # fmt: skip
    assert line["sampling/logp_difference/max"] < 1e-4
    assert line.get("first_minibatch/logp_difference/max", 0.0) < 1e-4
    checkpoint = tmp_path / "checkpoints" / "step-000001"
    assert (checkpoint / "adapter_model.safetensors").stat().st_size < 1e7
    base = AutoModelForCausalLM.from_pretrained(directory("smollm2-135m"))
    ids = torch.tensor([[1, 2, 3]])
    was = base(ids).logits
    with warnings.catch_warnings():  # peft asks a model by a name that transformers warns of
        warnings.simplefilter("ignore", FutureWarning)
        adapted = PeftModel.from_pretrained(base, str(checkpoint)).eval()
    assert line.get("update/steps", 0) > 0 or environment == "hop"
    assert torch.equal(adapted(ids).logits, was) == (not line.get("update/steps", 0))

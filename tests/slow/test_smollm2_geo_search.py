"""RTPO and AT2PO on geo_search with a real pretrained model, and what is left behind."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

pytestmark = pytest.mark.slow

LIMIT = 3600
"""Seconds after which a run counts as hung; it takes a few minutes."""
SMALL = {
    "rtpo": ("--algorithm.siblings", "2"),
    "at2po": ("--algorithm.chains", "2", "--algorithm.branches", "1"),
}


@pytest.mark.parametrize("algorithm", SMALL)
def test_a_real_model_searches_and_its_checkpoint_loads_in_plain_transformers(tmp_path, algorithm):
    out = tmp_path / algorithm
    command = [sys.executable, "-m", "retrograde.cli.main", "train", "--model", "smollm2-135m"]
    command += ["--algorithm", algorithm, *SMALL[algorithm], "--environment", "geo_search"]
    command += ["--steps", "2", "--prompts", "1", "--eval-episodes", "1", "--eval-every", "0"]
    command += ["--model.max-new-tokens", "32", "--out", str(out)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [0, 1, 2]
    for line in lines[1:]:
        assert line["sampling/logp_difference/max"] < 1e-4
    checkpoint = Path(out / "checkpoints/step-000002")
    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    ids = tokenizer("The capital of France is", return_tensors="pt").input_ids
    said = model.generate(ids, max_new_tokens=4, do_sample=False)
    assert said.shape[1] > ids.shape[1]

"""`retrograde train --environment bfcl` plays real tasks with a model from a directory."""

import json

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from retrograde.environments.bfcl.environment import Bfcl

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
MARKS = ["<|im_start|>", "<|im_end|>"]
PLACES = 16_384


@pytest.fixture(scope="module")
def untrained(tmp_path_factory):
    """A Llama of random weights that reads BFCL's own words in few tokens."""
    words = Tokenizer(models.BPE())
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1500,
        special_tokens=MARKS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    cases = [Bfcl().case(Bfcl().task("train", i)) for i in range(0, 400, 4)]
    texts = [function.tool("short") for case in cases for function in case.requests[0].functions]
    words.train_from_iterator(texts, trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<|im_end|>")
    tokenizer.chat_template = CHATML
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=PLACES,
        eos_token_id=tokenizer.eos_token_id,
    )
    where = tmp_path_factory.mktemp("untrained")
    LlamaForCausalLM(config).save_pretrained(where)
    tokenizer.save_pretrained(where)
    return where


def test_it_plays_and_trains(retrograde, untrained, place):
    said = retrograde(
        "train", "--environment", "bfcl", "--algorithm", "grpo", "--model", untrained,
        "--environment.documentation", "short", "--environment.listing", "text",
        "--environment.category", "miss_func",
        "--environment.reward", "progress", "--environment.max-new-tokens", "4",
        "--algorithm.rollouts", "2", "--steps", "1", "--prompts", "1", "--eval-episodes", "1",
        "--eval-every", "0", "--quiet", "--out", "run",
    )  # fmt: skip
    assert said.code == 0, said.err
    lines = (place / "run" / "metrics.jsonl").read_text().splitlines()
    metrics = [json.loads(line) for line in lines]
    assert metrics[-1]["step"] == 1
    assert metrics[-1]["rollouts/ended/finished"] == 2
    # Four tokens are no call. So each message gets one answer, and only the one about which
    # nothing can be done gets the right one: of n messages that earns 1/n.
    assert metrics[-1]["reward/mean"] * metrics[-1]["num_turns/mean"] == pytest.approx(1)
    assert metrics[-1]["sampling/logp_difference/max"] < 1e-4

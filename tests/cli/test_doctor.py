"""`retrograde doctor`: what it says, and its exit codes."""

import json

import pytest
from tests.rendering.tokenizers_by_hand import tokenizer


def test_a_model_is_proven(retrograde):
    said = retrograde("doctor", "--model", "embedded")
    assert said.code == 0
    assert said.out.startswith("model embedded\n  template: appends\n")
    assert "  proven  plain answers: full: the template's ids; 5 turns, " in said.out
    assert said.out.endswith("model embedded: proven\n")


def test_a_model_is_not_proven_and_the_difference_is_shown(retrograde, place):
    tokenizer("mistral").save_pretrained(place / "made")
    said = retrograde("doctor", "--model", "made")
    assert said.code == 1
    assert "  failed  tool calls" in said.out
    assert "template:" in said.out
    assert said.out.endswith("model made: not proven, 2 failed\n")


def test_json(retrograde, place):
    tokenizer("qwen3").save_pretrained(place / "made")
    said = retrograde("doctor", "--model", "made", "--json")
    assert said.code == 0
    written = json.loads(said.out)
    assert written["proven"] is True
    (report,) = written["reports"]
    assert report["facts"]["rewriting"] == [
        "drops the thought of an answer once a user message follows"
    ]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--environment.hops", "3"), "unrecognized arguments"),
        (("--model", "embeded"), "no model 'embeded': did you mean embedded"),
        (("--model", "embedded", "--environment.hops", "3"), "unrecognized arguments"),
        (("--model",), "expected one argument"),
    ],
)
def test_bad_input(retrograde, words, problem):
    said = retrograde("doctor", *words)
    assert said.code == 2
    assert problem in said.err


def test_a_tokenizer_without_a_chat_template_is_bad_input(retrograde, place):
    bare = tokenizer("chatml", "{# #}")
    bare.chat_template = None
    bare.save_pretrained(place / "made")
    said = retrograde("doctor", "--model", "made")
    assert said.code == 2
    assert "a tokenizer with a chat template is needed" in said.err

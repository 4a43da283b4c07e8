"""The doctor proves what is so, and finds renderers that are wrong in known ways."""

import json

import pytest

from retrograde.backends.chat import TransformersChat
from retrograde.backends.embedded import embedded_tokenizer
from retrograde.backends.proof import proof
from retrograde.backends.rewriting import ASKED
from retrograde.data.report import Report, Verdict

from .tokenizers_by_hand import KINDS, chat, tokenizer

CALLS, CALLS_TOO = "tool calls, two results at once", "tool calls with thoughts"
PLAIN, CONTROL = "plain answers", "text that looks like control tokens"
ODD, ENDS = "ids as they were sampled", "trained spans end in a stop id"
LOSS = "prompts and separators carry no loss"


def failed(report: Report) -> dict[str, str]:
    return {f.name: f.text for f in report.findings if f.verdict is Verdict.FAILED}


def noted(report: Report) -> dict[str, str]:
    return {f.name: f.text for f in report.findings if f.verdict is Verdict.NOTE}


@pytest.mark.parametrize("name", [name for name in KINDS if name != "mistral"])
def test_templates_of_many_kinds_are_proven(name):
    report = proof(chat(name), name)
    assert failed(report) == {}
    assert report.is_proven
    proven = [f.name for f in report.findings if f.verdict is Verdict.PROVEN]
    assert {PLAIN, CALLS, CALLS_TOO, CONTROL, ODD, ENDS, LOSS} <= set(proven)
    assert "5 turns" in next(f.text for f in report.findings if f.name == PLAIN)
    assert "the template alone would let them through" in noted(report)[CONTROL]


def test_the_embedded_tokenizer_is_proven():
    assert proof(TransformersChat(embedded_tokenizer()), "embedded").is_proven


def test_what_a_rewriting_template_leaves_out_is_shown():
    report = proof(chat("qwen3"), "qwen3")
    assert report.facts["template"] == "rewrites what was said before"
    thoughts = noted(report)["answers with thoughts"]
    assert thoughts.startswith("full shows the past as it was said, and the template rewrites it")
    template, here = thoughts.splitlines()[-2:]
    assert template.startswith("template:  'search Ada boss<|im_end|>")
    assert here.startswith("here:      '<think>\\nAda comes ")
    # and that the last answer of all would be shown with an empty thought
    last = next(f.text for f in report.findings if f.name == ENDS)
    assert "template:  '<think>\\n\\n</think>\\n\\nsearch Ada boss" in last


def test_what_is_dropped_where_the_template_does_not_drop_is_shown():
    report = proof(chat("qwen25"), "qwen25")
    text = noted(report)["answers with thoughts"]
    assert text.startswith("drop_thinking leaves out what the template shows. Context 2:")


def test_facts_and_fallbacks_are_told():
    facts = proof(chat("gemma2"), "gemma2").facts
    assert len(facts["fallbacks"]) == 9
    assert facts["stop ids"].count("<end_of_turn>") == 1
    assert facts["stop ids"].count("<eos>") == 1
    assert facts["pad"] == "none: the end of turn"
    padded = tokenizer("chatml", tokenizer("chatml").chat_template + "{# strftime_now #}")
    padded.pad_token = "<|im_end|>"
    facts = proof(TransformersChat(padded), "").facts
    assert "masked by place, not by id" in facts["pad"]
    assert facts["date"] == "the template writes today's"


def test_a_tokenizer_that_joins_pieces_across_an_answer_is_not_proven():
    spaced = proof(chat("mistral"), "mistral")
    assert set(failed(spaced)) == {CALLS, CALLS_TOO}  # ▁ and ▁Max are one piece there
    # GPT-2 divides "\n\nsearch" as \n \nsearch; the prompt alone, as it is sampled from, is \n\n
    split = proof(TransformersChat(tokenizer("llama3", None, "bytes")), "llama3")
    assert "the text is the same: the tokenizer divides it otherwise" in failed(split)[PLAIN]


class ToolTurnAlone(TransformersChat):
    """Renders what follows an answer as a chat of its own, as verl did."""

    def reply(self, messages):
        entries = [{"role": m.role, "content": m.content} for m in messages]
        alone = self.tokenizer.apply_chat_template(
            entries, tokenize=True, add_generation_prompt=True, return_dict=False
        )
        return tuple(alone)


class NoSeparator(TransformersChat):
    """Forgets the line end behind a stop token."""

    def reply(self, messages):
        return super().reply(messages)[1:]


class EndToTheNext(TransformersChat):
    """Gives the end of a turn to the message behind it, so that nobody learns to stop."""

    def said(self, text):
        return super().said(text)[:-1] or super().said(text)


class PromptTrained(TransformersChat):
    """Trains the generation prompt as if it had been sampled."""

    def opening(self, messages):
        return super().opening(messages)[:-2]

    def said(self, text):
        return (*super().opening([ASKED])[-2:], *super().said(text))


class Reencoding(TransformersChat):
    """Shows an answer as the tokenizer would write it."""

    def rewritten(self, chat):
        told = [self.said(self.decode(said)) if isinstance(said, tuple) else said for said in chat]
        return super().rewritten(told)


class Trusting(TransformersChat):
    """Reads what environments say as if the template had said it."""

    def _control(self):
        spelling = super()._control()
        spelling.marked = str
        return spelling


@pytest.mark.parametrize(
    ("wrong", "name", "finds"),
    [
        (ToolTurnAlone, "chatml", {PLAIN, CALLS}),
        (ToolTurnAlone, "qwen25", {PLAIN, CALLS}),
        (NoSeparator, "chatml", {PLAIN, CALLS}),
        (NoSeparator, "qwen3", {PLAIN, CALLS}),
        (EndToTheNext, "chatml", {ENDS}),
        (PromptTrained, "chatml", {LOSS}),
        (Reencoding, "qwen3", {ODD}),
        (Trusting, "qwen25", {CONTROL}),
    ],
)
def test_a_wrong_renderer_is_found(wrong, name, finds):
    report = proof(wrong(tokenizer(name)), name)
    assert not report.is_proven
    assert finds <= set(failed(report))


def test_the_difference_is_shown_where_it_begins():
    text = failed(proof(NoSeparator(tokenizer("chatml")), "chatml"))[PLAIN]
    first, same, template, here = text.splitlines()
    assert first == "full: not the template's ids. Context 2:"
    assert same.endswith("search Ada boss<|im_end|>'")
    assert template.startswith("template:  '\\n<|im_start|>user")
    assert here.startswith("here:      '<|im_start|>user")


def test_a_report_is_json():
    report = proof(chat("gemma3"), "gemma3")
    written = json.loads(json.dumps(report.to_json()))
    assert written["proven"] is True
    assert written["subject"] == "gemma3"
    assert {f["verdict"] for f in written["findings"]} <= {"proven", "failed", "note"}
    assert isinstance(written["facts"]["fallbacks"], list)

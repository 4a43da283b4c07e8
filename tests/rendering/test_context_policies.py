"""Context policies as they are written, and what they show at turn 4, by hand."""

import json

import pytest

from retrograde.data.message import Message
from retrograde.rendering.context import WINDOW, Shown, shown_under
from retrograde.rendering.history import Renderer

from .tokenizers_by_hand import KINDS, chat, ids, read

RULES = Message("system", "Rules.", lasting=True)
QUESTION = Message("user", "Ada?", lasting=True)
NAMES = ("Ben", "Max", "Ida")
ANSWERS = tuple(f"<think>\nhm {name}\n</think>\n\nsearch {name}" for name in NAMES)
HEARD = tuple((Message("user", f"Found {name}"),) for name in NAMES)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("full", Shown()),
        ("drop_thinking", Shown(thoughts=False)),
        ("window", WINDOW),
        ("window(1)", WINDOW),
        ("window(12)", Shown(exchanges=12, thoughts=False)),
        ("markov", Shown(exchanges=0, opening=False)),
    ],
)
def test_a_policy_is_read(written, shown):
    assert shown_under(written) == shown
    assert shown_under(shown) is shown


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("windows", "no context policy 'windows'; did you mean window"),
        ("summarize(a.py:b)", r"did you mean summarise\? known: full, drop_thinking, window, "),
        ("", "no context policy ''; known: full"),
        ("window 3", "no context policy 'window 3'"),
        ("window()", r"context 'window\(\)': a whole number .* got ''"),
        ("window(0)", "at least 1, is needed in the brackets, got '0'"),
        ("window(-1)", "got '-1'"),
        ("window(two)", "got 'two'"),
        ("window(²)", "got '²'"),
        ("full(3)", r"context 'full\(3\)': full takes nothing in brackets"),
        ("summarise", r"needs the function .* summarise\(FILE.py:NAME\)"),
        ("summarise(notes)", "needs the function"),
        ("summarise(no.such:notes)", "'no.such' could not be imported"),
        ("summarise(:notes)", "'' could not be imported"),
        ("summarise(none.py:notes)", "there is no file none.py"),
        ("summarise(json:nothing)", "there is no 'nothing' in json"),
        ("summarise(json:__name__)", "json:__name__ is no function, but 'json'"),
    ],
)
def test_what_is_no_policy_is_refused(written, problem):
    with pytest.raises(ValueError, match=problem):
        shown_under(written)


def test_a_summary_is_a_function_of_a_file_or_a_module(tmp_path):
    (tmp_path / "own_notes.py").write_text("def notes(past):\n    return str(len(past))\n")
    assert shown_under(f"summarise({tmp_path}/own_notes.py:notes)").summary([("a", "b")]) == "1"
    assert shown_under("summarise(json:dumps)").summary is json.dumps


def after_three(name, policy):
    renderer = Renderer(chat(name), policy)
    history = renderer.open((RULES, QUESTION))
    for answer, heard in zip(ANSWERS, HEARD, strict=True):
        history = renderer.answered(history, chat(name).said(answer), heard)
    return renderer.context(history)


def written_out(*said):
    """A ChatML chat, whose end is a generation prompt."""
    turns = [f"<|im_start|>{role}\n{text}<|im_end|>\n" for role, text in said]
    return "".join(turns) + "<|im_start|>assistant\n"


OPENED = (("system", "Rules."), ("user", "Ada?"))
EXCHANGES = [(("assistant", f"search {n}"), ("user", f"Found {n}")) for n in NAMES]
WHOLE = [(("assistant", a), heard) for a, (_, heard) in zip(ANSWERS, EXCHANGES, strict=True)]


def notes(past):
    assert past == [("assistant", ANSWERS[0]), ("user", "Found Ben"), ("assistant", ANSWERS[1]),
                    ("user", "Found Max")]  # fmt: skip
    return "Seen: Ben, Max"


SUMMARISE = Shown(exchanges=1, thoughts=False, summary=notes)
SHOWN = [
    ("full", written_out(*OPENED, *WHOLE[0], *WHOLE[1], *WHOLE[2])),
    ("drop_thinking", written_out(*OPENED, *EXCHANGES[0], *EXCHANGES[1], *EXCHANGES[2])),
    ("window", written_out(*OPENED, *EXCHANGES[2])),
    ("window(2)", written_out(*OPENED, *EXCHANGES[1], *EXCHANGES[2])),
    ("window(3)", written_out(*OPENED, *EXCHANGES[0], *EXCHANGES[1], *EXCHANGES[2])),
    ("window(9)", written_out(*OPENED, *EXCHANGES[0], *EXCHANGES[1], *EXCHANGES[2])),
    (SUMMARISE, written_out(*OPENED, ("user", "Seen: Ben, Max"), *EXCHANGES[2])),
    ("markov", written_out(*OPENED, ("user", "Found Ida"))),
]


@pytest.mark.parametrize("name", ["chatml", "qwen3"])  # one appends, the other rewrites
@pytest.mark.parametrize(("policy", "shown"), SHOWN, ids=str)
def test_what_is_shown_at_the_fourth_turn(name, policy, shown):
    assert read(name, after_three(name, policy)) == shown
    assert after_three(name, policy) == ids(name, shown)


def test_a_summary_stands_only_for_what_is_left_out():
    def fail(past):
        raise AssertionError(past)

    renderer = Renderer(chat("chatml"), Shown(exchanges=1, thoughts=False, summary=fail))
    history = renderer.open((RULES, QUESTION))
    renderer.context(history)
    history = renderer.answered(history, chat("chatml").said(ANSWERS[0]), HEARD[0])
    renderer.context(history)  # all that was said is shown
    history = renderer.answered(history, chat("chatml").said(ANSWERS[1]), HEARD[1])
    with pytest.raises(AssertionError, match="hm Ben"):
        renderer.context(history)


def test_an_empty_summary_adds_nothing_and_no_text_is_refused():
    empty = Shown(exchanges=1, thoughts=False, summary=lambda _: "")
    assert after_three("chatml", empty) == after_three("chatml", "window")
    with pytest.raises(TypeError, match="a text is needed from the function, got 3"):
        after_three("chatml", Shown(exchanges=1, summary=lambda _: 3))


def test_a_summary_is_joined_to_the_question_where_roles_must_alternate():
    summary = Shown(exchanges=1, thoughts=False, summary=lambda _: "Seen.")
    assert read("gemma3", after_three("gemma3", summary)).startswith(
        "<bos><start_of_turn>user\nRules.\n\nAda?\n\nSeen.<end_of_turn>\n<start_of_turn>model\n"
    )


@pytest.mark.parametrize("name", KINDS)
def test_a_summary_cannot_speak_in_another_role(name):
    end = read(name, [chat(name).end_of_turn])
    forged, plain = (
        Shown(exchanges=1, thoughts=False, summary=lambda _, text=text: text)
        for text in (f"x{end}", "x")
    )
    count = [after_three(name, each).count(chat(name).end_of_turn) for each in (forged, plain)]
    assert count[0] == count[1]


def test_an_answer_that_thinks_twice():
    said = "<think>a</think> <think>b</think> \n go </think"
    shown = {}
    for name in ("chatml", "qwen3"):
        renderer = Renderer(chat(name), "drop_thinking")
        twice = chat(name).said(said)
        history = renderer.answered(renderer.open([QUESTION]), twice, HEARD[0])
        shown[name] = read(name, renderer.context(history))
    assert "assistant\n<think>b</think> \n go </think<|im_end|>" in shown["chatml"]
    assert "assistant\n \n go </think<|im_end|>" in shown["qwen3"]  # as its template counts

r"""Tags, boxes, and AT2PO's format, worked by hand."""

import pytest

from retrograde.environments.search.format import Said, boxed, is_formatted


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<think> a </think> <search> Paris capital </search>", Said(search="Paris capital")),
        ("<search>Paris\n  capital</search>", Said(search="Paris capital")),
        ("<SEARCH> Paris </Search>", Said(search="Paris")),
        ("< search > Paris < / search >", Said(search="Paris")),
        (r"<think>a</think><answer> \boxed{Euro} </answer>", Said(answer=r"\boxed{Euro}")),
        ("<answer>Euro</answer>", Said(answer="Euro")),
        # Search-R1: the first of the two is done.
        ("<search>a</search><answer>b</answer>", Said(search="a")),
        ("<answer>b</answer><search>a</search>", Said(answer="b")),
        # Nothing inside a thought is done.
        ("<think> <search> a </search> </think> <search> b </search>", Said(search="b")),
        ("<think> <answer> a </answer> </think>", Said()),
        ("<think> <search> a </search>", Said()),
        ("<search> a </search> <think> b </think>", Said()),  # said before a thought is over
        # What is not closed, is empty, or is closed by the other tag means nothing.
        ("<search> a", Said()),
        ("<search></search>", Said()),
        ("<answer>  </answer>", Said()),
        ("<search> a </answer>", Said()),
        ("Paris", Said()),
        ("", Said()),
    ],
)
def test_what_words_ask_for(text, said):
    assert Said.of(text) == said


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        (r"\boxed{Euro}", "Euro"),
        (r"It is \boxed{ Euro }.", "Euro"),
        (r"\ boxed { Euro }", "Euro"),  # as a tokenizer of words says it
        (r"\boxed{a} or \boxed{b}", "b"),
        (r"\boxed{f{x}}", "f{x}"),
        (r"\boxed{\text{New Delhi}}", "New Delhi"),
        (r"\boxed{a} and \boxed{b", "a"),  # the last that is closed
        (r"\boxed{}", ""),
        (r"\boxed{Euro", None),
        ("boxed{Euro}", None),
        ("Euro", None),
    ],
)
def test_the_box(text, inside):
    assert boxed(text) == inside


SEARCH = "<think> a </think> <search> b </search>"
ANSWER = r"<think> c </think> <answer> \boxed{d} </answer>"


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        pytest.param((SEARCH, ANSWER), True, id="search and answer"),
        pytest.param((ANSWER,), True, id="answer at once"),
        pytest.param((SEARCH, r"<answer> \boxed{d} </answer>"), True, id="one thought is enough"),
        pytest.param(("hm", ANSWER), True, id="words beside the tags"),
        pytest.param((SEARCH,), False, id="no answer"),
        pytest.param((r"<answer> \boxed{d} </answer>",), False, id="no thought"),
        pytest.param((SEARCH, "<think> c </think> <answer> d </answer>"), False, id="no box"),
        pytest.param((r"<think> c </think> \boxed{d}",), False, id="a box, but no answer"),
        pytest.param(
            (r"<think> \boxed{d} </think> <answer> d </answer>",), False, id="box in the thought"
        ),
        pytest.param(("<think> a", ANSWER), False, id="a thought not closed"),
        pytest.param(("<search> b", ANSWER), False, id="a search not closed"),
        pytest.param((ANSWER, ANSWER), False, id="two answers"),
        pytest.param((ANSWER + "</answer>",), False, id="closed twice"),
        pytest.param(
            (r"<think> a </think> </answer> \boxed{d} <answer>",), False, id="the wrong way round"
        ),
        pytest.param((r"<think> c </think> <answer> \boxed{d </answer>",), False, id="open box"),
        pytest.param((), False, id="nothing"),
    ],
)
def test_the_format_that_at2po_rewards(turns, expected):
    assert is_formatted(turns) == expected

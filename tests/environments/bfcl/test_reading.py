"""Calls in a policy's words."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrograde.environments.bfcl.reading import Call, Malformed, calls_in, said

CD = '<tool_call>\n{"name": "cd", "arguments": {"folder": "a"}}\n</tool_call>'
LS = '<tool_call>{"name": "ls", "arguments": {}}</tool_call>'


def test_hermes_calls_are_read_in_order_with_words_around():
    read = calls_in(f"First I go there.\n{CD}\nThen I look.\n{LS}", "hermes")
    assert read == [Call("cd", {"folder": "a"}), Call("ls", {})]


def test_pythonic_calls_are_one_list_with_names_or_without():
    read = calls_in(
        "[cd(folder='a'), tail('b.txt', lines=-3, flags=[1, {'x': None}]), ls()]", "pythonic"
    )
    assert read == [
        Call("cd", {"folder": "a"}),
        Call("tail", {"lines": -3, "flags": [1, {"x": None}]}, ("b.txt",)),
        Call("ls", {}),
    ]


def test_a_fence_around_a_list_is_left_out():
    assert calls_in("```python\n[ls()]\n```", "pythonic") == [Call("ls", {})]


@pytest.mark.parametrize("form", ["hermes", "pythonic"])
@pytest.mark.parametrize("text", ["", "Done.", "I cannot do that: no such function."])
def test_words_without_calls_are_no_calls(form, text):
    assert calls_in(text, form) == []


def test_an_empty_list_calls_nothing():
    assert calls_in("[]", "pythonic") == []


@pytest.mark.parametrize(("form", "call"), [("hermes", LS), ("pythonic", "[ls()]")])
def test_thoughts_call_nothing(form, call):
    assert calls_in(f"<think>{call}</think> Done.", form) == []
    assert calls_in(f"<think>maybe {call}", form) == []
    assert calls_in(f"<think>so</think> {call}", form) == [Call("ls", {})]


@pytest.mark.parametrize(
    ("inside", "reason"),
    [
        ("ls()", "not JSON"),
        ('{"name": "ls"}', "arguments"),
        ('{"name": "ls", "arguments": "{}"}', "arguments"),
        ('{"name": "ls", "arguments": null}', "arguments"),
        ('{"name": 3, "arguments": {}}', "name"),
        ('["ls"]', "object"),
        ('{"name": "add", "arguments": {"a": NaN}}', "NaN"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_what_is_meant_as_a_tagged_call_and_is_none_is_malformed(inside, reason):
    (read,) = calls_in(f"<tool_call>{inside}</tool_call>", "hermes")
    assert isinstance(read, Malformed)
    assert reason in read.reason


def test_tags_come_in_pairs():
    first, second = calls_in(f"{LS}<tool_call>" + '{"name": "ls", "arguments": {}}', "hermes")
    assert first == Call("ls", {})
    assert isinstance(second, Malformed)
    (stray,) = calls_in('{"name": "ls", "arguments": {}}</tool_call>', "hermes")
    assert isinstance(stray, Malformed)


@pytest.mark.parametrize(
    "text",
    [
        "[ls()",
        "[ls() ls()]",
        "[ls()] and so on",
        "[ls()][0]",
        "[x]",
        "[1]",
        "[os.remove('a')]",
        "[cd(folder=pwd())]",
        "[cd(folder=__import__('os').getcwd())]",
        "[cd(**{'folder': 'a'})]",
        "[cd(*['a'])]",
        "[cd(folder=b'a')]",
        "[cd(folder={1, 2})]",
        "[add(a=1e999, b=2j)]",
        "[ls(" + "(" * 5000,
        "[cd(folder='\0')",
    ],
)
def test_what_begins_as_a_list_and_is_no_list_of_calls_is_malformed(text):
    assert any(isinstance(read, Malformed) for read in calls_in(text, "pythonic"))


def test_a_malformed_call_beside_a_good_one_leaves_the_good_one():
    read = calls_in("[ls(), cd(folder=pwd())]", "pythonic")
    assert read[0] == Call("ls", {})
    assert isinstance(read[1], Malformed)


def test_odd_escapes_are_no_warning():
    assert calls_in(r"[cd(folder='\d')]", "pythonic") == [Call("cd", {"folder": r"\d"})]


@given(
    st.text(alphabet="[]()<>tool_call/{}\"':,=ab1\n\\ "), st.sampled_from(["hermes", "pythonic"])
)
def test_no_text_raises(text, form):
    calls_in(text, form)
    calls_in(f"<tool_call>{text}</tool_call>", form)
    calls_in(f"[{text}]", form)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(alphabet=st.characters(exclude_characters="<", exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(alphabet="abc", max_size=3), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
CALLS = st.lists(
    st.builds(
        Call,
        st.sampled_from(["cd", "ls", "book_flight"]),
        st.dictionaries(st.sampled_from(["a", "b", "folder"]), VALUES, max_size=3),
    ),
    max_size=3,
)


@given(CALLS, st.sampled_from(["hermes", "pythonic"]))
def test_what_is_said_is_read(calls, form):
    assert calls_in(said(calls, form), form) == calls


def test_hermes_cannot_leave_out_names():
    with pytest.raises(ValueError, match="hermes names every argument"):
        said([Call("cd", {}, ("a",))], "hermes")


def test_arguments_of_the_hermes_format_are_json():
    (line,) = said([Call("cd", {"folder": "ä"})], "hermes").split("\n")[1:-1]
    assert json.loads(line) == {"name": "cd", "arguments": {"folder": "ä"}}

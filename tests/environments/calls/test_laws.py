"""Laws of every format, on many texts."""

import json
import keyword

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from retrograde.environments.calls.call import SOLE, Call, Malformed
from retrograde.environments.calls.registry import FORMATS, read_calls

every_format = pytest.mark.parametrize("name", FORMATS)

PIECES = (
    *("<tool_call>", "</tool_call>", "<function=f>", "</function>", "<parameter=a>"),
    *("</parameter>", "<think>", "</think>", "<|python_tag|>", "<search>", "</search>"),
    *("<answer>", "</answer>", "\\boxed{", "{", "}", "[", "]", "(", ")", "f(a=", "'", '"'),
    *('{"name": "f", "arguments": {"a": 1}}', '{"name": "f", "parameters": {"a": 1}}', ";"),
    *("[f(a=1)]", "\n", " ", "\\ud800", "\ud800", "1e999", "**b", ",", ":", "\x00"),
)
shards = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=5)), max_size=20)
wild = st.one_of(st.text(), shards.map("".join))
names = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True).filter(
    lambda n: (
        n not in {"answer", "think", "and", "as", "is", "in", "if", "or", "not", "for", "def"}
        and not keyword.iskeyword(n)
    )
)
speakable = st.text(st.characters(codec="utf-8", exclude_characters="<"), max_size=12)
values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(10**12), 10**12),
        st.floats(allow_nan=False, allow_infinity=False),
        st.one_of(speakable, st.sampled_from(["<think>", "</think>", "</tool_call>", '"', "\\"])),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(speakable, inner, max_size=3)
    ),
    max_leaves=6,
)
calls = st.builds(Call, names, st.dictionaries(names, values, max_size=3))
texts = st.builds(
    lambda name, arguments: Call(name, arguments, verbatim=True),
    names,
    st.dictionaries(names, speakable, max_size=3),
)
sole = st.builds(
    lambda name, value: Call(name, {SOLE: value.strip()}, verbatim=True), names, speakable
)
SAYABLE = {
    "hermes": st.lists(calls, min_size=1, max_size=3),
    "llama3": st.lists(calls, min_size=1, max_size=3),
    "pythonic": st.lists(calls, min_size=1, max_size=3),
    "qwen3_coder": st.lists(texts, min_size=1, max_size=3),
    "react": st.lists(sole, min_size=1, max_size=1),
}


@every_format
@given(text=wild)
@example("<tool_call>" * 3_000)
@example("{" * 3_000)
@example("[" * 3_000)
@example("<a>" * 3_000)
@example("<search>\ud800</search>")
def test_reading_never_raises_and_never_calls_half_a_thing(name, text):
    for call in read_calls(text, name).calls:
        if isinstance(call, Malformed):
            assert call.why
        else:
            assert call.name
            json.dumps([call.name, dict(call.arguments)], ensure_ascii=False).encode()


@every_format
@given(data=st.data())
def test_what_is_written_is_read(name, data):
    written = data.draw(SAYABLE[name])
    text = FORMATS[name].write("", written)
    assert list(read_calls(text, name).calls) == written


@pytest.mark.parametrize("name", ["hermes", "qwen3_coder", "react", "llama3"])
@given(data=st.data(), words=speakable.map(str.strip).filter(lambda w: not w.startswith("{")))
def test_words_beside_a_call_are_kept(name, data, words):
    written = data.draw(SAYABLE[name])
    text = FORMATS[name].write(words, written)
    said = read_calls(text, name)
    assert list(said.calls) == written
    assert said.words.split() == words.split()


@every_format
@given(data=st.data(), thought=wild, rest=wild)
def test_what_is_thought_changes_nothing(name, data, thought, rest):
    call = FORMATS[name].write("", data.draw(SAYABLE[name]))
    inside = f"{thought}{call}".replace("</think>", "")
    rest = rest.replace("<think>", "").replace("</think>", "")
    assert read_calls(f"<think>{inside}</think>{rest}", name) == read_calls(rest, name)
    assert read_calls(f"{rest}<think>{inside}", name) == read_calls(rest, name)
    assert read_calls(f"{inside.replace('<think>', '')}</think>{rest}", name) == read_calls(
        rest, name
    )

"""What each format reads and writes."""

import pytest

from retrograde.environments.calls.call import SOLE, Call, Malformed, Said
from retrograde.environments.calls.react import boxed
from retrograde.environments.calls.registry import FORMATS, read_calls
from retrograde.environments.calls.thought import outside_thought

ADD = Call("add", {"a": 1, "b": 2})
HERMES_ADD = '<tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call>'


def why(text: str, name: str) -> str:
    """Why the only call of a text is none."""
    (one,) = read_calls(text, name).calls
    assert isinstance(one, Malformed), one
    assert one.event == "call/malformed"
    return one.why


def test_hermes_reads_several_calls_and_the_words_around():
    text = (
        f'I will.\n{HERMES_ADD}\n<tool_call>\n{{"name":"now","arguments":{{}}}}\n</tool_call> Done.'
    )
    assert read_calls(text, "hermes") == Said((ADD, Call("now", {})), "I will.\n\n Done.")


def test_hermes_reads_a_string_that_holds_the_closing_tag():
    text = '<tool_call>{"name": "say", "arguments": {"x": "</tool_call>"}}</tool_call>'
    assert read_calls(text, "hermes").calls == (Call("say", {"x": "</tool_call>"}),)


def test_hermes_may_lack_the_last_closing_tag():
    text = HERMES_ADD.removesuffix("</tool_call>")
    assert read_calls(text, "hermes").calls == (ADD,)


@pytest.mark.parametrize(
    ("inside", "problem"),
    [
        ('{"name": "add", "arguments": {"a": 1', "not valid JSON"),
        ("{'name': 'add', 'arguments': {}}", "not valid JSON"),
        ('{"name": "add", "arguments": {"a": NaN}}', "NaN is not JSON"),
        ('{"name": "add", "arguments": {"a": 1e999}}', "1e999 is no finite number"),
        ("", "not valid JSON"),
        ("3", "no JSON object but a int"),
        ('{"arguments": {}}', 'has no "name"'),
        ('{"name": "", "arguments": {}}', 'has no "name"'),
        ('{"name": 7, "arguments": {}}', 'has no "name"'),
        ('{"name": "add"}', 'has no "arguments"'),
        ('{"name": "add", "arguments": "{}"}', "must be an object, and is a str"),
        ('{"name": "add", "arguments": null}', "must be an object, and is a NoneType"),
        ('{"name": "add", "arguments": {"a": "\\ud800"}}', "surrogate"),
        ('{"name": "add", "arguments": {"a": ' + "[" * 70 + "]" * 70 + "}}", "nested more than 64"),
        ("[" * 5000, "nested too deep"),
        ('{"name": "add", "arguments": {}} and more', "comes no </tool_call>"),
    ],
)
def test_hermes_says_what_is_wrong_with_a_call(inside, problem):
    assert problem in why(f"<tool_call>{inside}</tool_call>", "hermes")


def test_a_malformed_call_hides_no_later_one():
    text = f"<tool_call>nonsense</tool_call>{HERMES_ADD}<tool_call>{HERMES_ADD}"
    first, second, third, fourth = read_calls(text, "hermes").calls
    assert (second, fourth) == (ADD, ADD)
    assert isinstance(first, Malformed)
    assert isinstance(third, Malformed)


def test_hermes_takes_a_lone_closing_tag_for_a_broken_call():
    assert "no <tool_call> is open" in why("7</tool_call>", "hermes")


QWEN = """<tool_call>
<function=write>
<parameter=path>
a.txt
</parameter>
<parameter=text>
two
lines

</parameter>
</function>
</tool_call>"""


def test_qwen3_coder_reads_arguments_as_they_are_written():
    said = read_calls(f"I will.\n{QWEN}", "qwen3_coder")
    call = Call("write", {"path": "a.txt", "text": "two\nlines\n"}, verbatim=True)
    assert said == Said((call,), "I will.")
    bare = "<tool_call><function=now></function></tool_call>"
    assert read_calls(bare + QWEN, "qwen3_coder").calls == (Call("now", {}, verbatim=True), call)
    assert read_calls(QWEN.removesuffix("</tool_call>"), "qwen3_coder").calls == (call,)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('<tool_call>{"name": "add", "arguments": {}}</tool_call>', "comes no <function=NAME>"),
        ("<tool_call><function=></function></tool_call>", "comes no <function=NAME>"),
        ("<tool_call><function=f><parameter=a>1</function></tool_call>", "=a> is not closed"),
        ("<tool_call><function=f>words</function></tool_call>", "=f> is not closed, or holds more"),
        (
            f"<tool_call><function=f>{2 * '<parameter=a>1</parameter>'}</function></tool_call>",
            "=a> comes twice",
        ),
        ("<tool_call><function=f></function> more </tool_call>", "comes no </tool_call>"),
        ("<function=f></function>", "stands outside"),
    ],
)
def test_qwen3_coder_says_what_is_wrong_with_a_call(text, problem):
    assert problem in why(text, "qwen3_coder")


def test_llama3_reads_an_answer_that_is_an_object_or_follows_the_tag():
    text = '{"name": "add", "parameters": {"a": 1, "b": 2}}'
    assert read_calls(text, "llama3") == Said((ADD,))
    assert read_calls(text.replace("parameters", "arguments"), "llama3") == Said((ADD,))
    assert read_calls(f"Well.<|python_tag|>{text}; {text}", "llama3") == Said((ADD, ADD), "Well.")
    assert read_calls(f"{text}\n{text}", "llama3") == Said((ADD, ADD))
    assert read_calls(f"It is {text}", "llama3") == Said((), f"It is {text}")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("<|python_tag|>", "not valid JSON"),
        ("<|python_tag|>brave_search.call(query='x')", "not valid JSON"),
        ('{"answer": 3}', 'has no "name"'),
        ('{"name": "add"}', 'has no "parameters"'),
        ("{add(1, 2)}", "not valid JSON"),
    ],
)
def test_llama3_says_what_is_wrong_with_a_call(text, problem):
    assert problem in why(text, "llama3")


def test_llama3_keeps_the_calls_in_front_of_a_broken_one():
    text = '{"name": "add", "parameters": {"a": 1, "b": 2}}; {"name": '
    good, bad = read_calls(text, "llama3").calls
    assert good == ADD
    assert isinstance(bad, Malformed)


def test_pythonic_reads_literals_alone():
    text = '[add(a=1, b=2), a.b(x=("s", None, {"k": [-1.5, True]}))]'
    call = Call("a.b", {"x": ["s", None, {"k": [-1.5, True]}]})
    assert read_calls(text, "pythonic") == Said((ADD, call))
    for words in ("[1, 2]", "[see the page (3)]", "It is [add(a=1)]", "[]"):
        assert read_calls(words, "pythonic") == Said((), words)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[add(1, 2)]", "an argument without a name"),
        ("[add(a=1, **b)]", "** or an argument twice"),
        ("[add(a=b)]", "a of add is not a plain value"),
        ("[add(a=__import__('os').system('ls'))]", "a of add is not a plain value"),
        ("[add(a='x' * 10**9)]", "a of add is not a plain value"),
        ("[add(a={1: 2})]", "a of add is not a plain value"),
        ("[add(a=b'x')]", "a of add is not a plain value"),
        ("[add(a=1e999)]", "not something that JSON can say"),
        ("[add(a='\\ud800')]", "surrogate"),
        ("[add(a=1]", "not valid Python"),
        ("[(lambda: 1)()]", "something that is not a name"),
        ("[f()()]", "something that is not a name"),
    ],
)
def test_pythonic_says_what_is_wrong_with_a_call(text, problem):
    assert problem in why(text, "pythonic")


@pytest.mark.parametrize(
    "text",
    [
        "[f(a=" + "-" * 15_000 + "1)]",
        "[f" + ".a" * 9_000 + "()]",
        "[f(a=" + "[" * 150 + "]" * 150 + ")]",
        "[f(a='\\d')]",
        "[f(a=\x00)]",
        "[f(a=1)" + " " * 30_000 + "]",
    ],
)
def test_pythonic_survives_what_hurts_a_parser(text):
    assert len(read_calls(text, "pythonic").calls) == 1


def test_react_reads_the_first_tag_or_the_answer():
    text = "<think> hm </think> So. <search> who wrote Dune </search> <search> x </search>"
    call = Call("search", {SOLE: "who wrote Dune"}, verbatim=True)
    assert read_calls(text, "react") == Said((call,), "So.  <search> x </search>")
    assert read_calls(r"<answer> It is \boxed{Frank Herbert}. </answer>", "react") == Said(
        (), "", "Frank Herbert"
    )
    assert read_calls("<answer> Dune </answer>", "react").answer == "Dune"
    assert read_calls("<p> <search> x </search>", "react").calls[0].name == "search"


@pytest.mark.parametrize("text", ["Frank Herbert", "<search> who", "</search>", ""])
def test_in_react_mere_words_are_no_answer(text):
    said = read_calls(text, "react")
    assert said.answer is None
    assert "say one of them" in why(text, "react")


def test_a_box_may_hold_braces():
    assert boxed(r"\boxed{1} and \boxed{\frac{1}{2}}") == r"\frac{1}{2}"
    assert boxed(r"\boxed{1") is None
    assert boxed("1") is None


def test_what_is_thought_is_left_out():
    assert outside_thought("a <think> b </think> c") == "a  c"
    assert outside_thought("a <think> b") == "a"
    assert outside_thought("a </think> b <think> c") == "b"
    assert outside_thought("<think> <think> a </think> b </think> c") == "c"
    assert outside_thought("a", opened=True) == ""
    assert outside_thought("a </think> b", opened=True) == "b"


def test_a_call_in_a_thought_is_never_run():
    for text in (
        f"<think>{HERMES_ADD}</think> 3",
        f"<think>{HERMES_ADD}",
        f"{HERMES_ADD}</think> 3",
        f"<think> a </think> 3 <think> {HERMES_ADD}",
    ):
        assert read_calls(text, "hermes").calls == ()
    # The control: outside, it is.
    assert read_calls(f"<think> a </think> {HERMES_ADD}", "hermes").calls == (ADD,)
    assert read_calls(HERMES_ADD, "hermes", thought_opened=True).calls == ()


def test_an_unknown_format_is_refused_with_the_nearest():
    with pytest.raises(
        ValueError, match="no format of calls is named 'herms'; did you mean hermes"
    ):
        read_calls("", "herms")
    assert list(FORMATS) == ["hermes", "llama3", "pythonic", "qwen3_coder", "react"]


@pytest.mark.parametrize(
    ("name", "words", "calls"),
    [
        ("pythonic", "words", [ADD]),
        ("react", "", [ADD]),
        ("react", "", [Call("f", {"a": 1}), Call("f", {"a": 1})]),
        ("qwen3_coder", "", [Call("f", {"a": "</parameter>"})]),
    ],
)
def test_what_a_format_cannot_say_is_refused(name, words, calls):
    with pytest.raises(ValueError, match=r"format says|cannot be said"):
        FORMATS[name].write(words, calls)

"""What templates do not take is said in another way, and how is known by hand."""

import json

import pytest

from retrograde.backends.chat import TransformersChat
from retrograde.data.message import Message

from .tokenizers_by_hand import KINDS, chat, read, tokenizer

SEARCH = {
    "type": "function",
    "function": {"name": "search", "description": "Say who.", "parameters": {"type": "object"}},
}
RULES = Message("system", "Be brief.", tools=(json.dumps(SEARCH),))
QUESTION = Message("user", "Who is Ada?")
BOTH = (Message("tool", "Ben", name="search"), Message("tool", "Max", name="search"))

FALLBACKS = {
    "chatml": {"tools"},
    "qwen25": set(),
    "qwen3": set(),
    "qwen3_thinking": set(),
    "llama3": set(),
    "gemma3": {
        "several_systems", "late_system", "tools", "tool_messages", "early_tool_messages",
        "lone_tool_messages", "system_alone", "users_in_a_row",
    },
    "gemma2": {
        "system", "several_systems", "late_system", "tools", "tool_messages",
        "early_tool_messages", "lone_tool_messages", "system_alone", "users_in_a_row",
    },
    "gpt_oss": {"tools"},
    "mistral": {
        "several_systems", "late_system", "tool_messages", "early_tool_messages",
        "lone_tool_messages", "system_alone", "users_in_a_row",
    },
}  # fmt: skip


def opened(name, *messages):
    return read(name, chat(name).opening(messages))


def replied(name, *messages):
    return read(name, chat(name).reply(messages))


@pytest.mark.parametrize("name", KINDS)
def test_what_a_template_does_not_take_is_found_out(name):
    accepts = chat(name).template.accepts
    missing = {field for field in accepts.__slots__ if not getattr(accepts, field)}
    assert missing == FALLBACKS[name]
    assert len(chat(name).template.fallbacks) == len(missing)


@pytest.mark.parametrize("name", KINDS)
def test_every_template_is_told_of_tools(name):
    shown = opened(name, RULES, QUESTION)
    assert "Be brief." in shown
    assert "Say who." in shown
    assert shown.index("Say who.") < shown.index("Who is Ada?")
    assert "Say who." not in opened(name, Message("system", "Be brief."), QUESTION)


def test_tools_in_hermes_form_stand_behind_the_system_text():
    shown = opened("chatml", RULES, QUESTION)
    system, _, rest = shown.partition("<|im_end|>")
    assert system.startswith("<|im_start|>system\nBe brief.\n\n# Tools\n\nYou may call one or more")
    assert f"<tools>\n{json.dumps(SEARCH)}\n</tools>\n\nFor each" in system
    assert system.endswith(
        '<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>'
    )
    assert rest == "\n<|im_start|>user\nWho is Ada?<|im_end|>\n<|im_start|>assistant\n"
    silent = Message("system", "", tools=RULES.tools)
    assert opened("chatml", silent, QUESTION).startswith("<|im_start|>system\n# Tools\n\n")


def test_system_text_goes_in_front_of_the_first_question_where_there_is_no_such_role():
    plain = Message("system", "Be brief.")
    assert opened("gemma2", plain, QUESTION) == (
        "<bos><start_of_turn>user\nBe brief.\n\nWho is Ada?<end_of_turn>\n<start_of_turn>model\n"
    )
    assert opened("gemma2", plain, plain, QUESTION).startswith(
        "<bos><start_of_turn>user\nBe brief.\n\nBe brief.\n\nWho is Ada?"
    )
    assert opened("gemma2", plain) == (
        "<bos><start_of_turn>user\nBe brief.<end_of_turn>\n<start_of_turn>model\n"
    )
    assert opened("gemma3", plain, QUESTION) == opened("gemma2", plain, QUESTION)


def test_tool_results_are_said_as_the_template_says_them():
    assert replied("qwen25", *BOTH) == (
        "\n<|im_start|>user\n<tool_response>\nBen\n</tool_response>\n<tool_response>\nMax\n"
        "</tool_response><|im_end|>\n<|im_start|>assistant\n"
    )
    assert replied("llama3", *BOTH) == (
        '<|start_header_id|>ipython<|end_header_id|>\n\n"Ben"<|eot_id|>'
        '<|start_header_id|>ipython<|end_header_id|>\n\n"Max"<|eot_id|>'
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
    )


def test_tool_results_are_said_by_the_user_where_there_is_no_such_role():
    both = "<tool_response>\nBen\n</tool_response>\n<tool_response>\nMax\n</tool_response>"
    assert replied("gemma3", *BOTH) == (
        f"\n<start_of_turn>user\n{both}<end_of_turn>\n<start_of_turn>model\n"
    )
    assert replied("gemma3", *BOTH, Message("user", "Now?")) == (
        f"\n<start_of_turn>user\n{both}\n\nNow?<end_of_turn>\n<start_of_turn>model\n"
    )
    # as `markov` has them: no answer before
    assert opened("gemma3", QUESTION, *BOTH) == (
        f"<bos><start_of_turn>user\nWho is Ada?\n\n{both}<end_of_turn>\n<start_of_turn>model\n"
    )


def test_a_template_may_take_tool_results_only_behind_an_answer():
    strict = tokenizer("qwen25").chat_template.replace(
        "{%- if m.role == 'tool' -%}",
        "{%- if m.role == 'tool' and loop.index0 < 2 %}{{ raise_exception('no call') }}{% endif -%}"
        "{%- if m.role == 'tool' -%}",
    )
    made = TransformersChat(tokenizer("qwen25", strict))
    assert not made.template.accepts.early_tool_messages
    assert made.reply(BOTH) == chat("qwen25").reply(BOTH)
    alone = read("qwen25", made.opening([QUESTION, BOTH[0]]))
    assert "<|im_start|>user\n<tool_response>\nBen\n</tool_response><|im_end|>" in alone


def test_a_template_may_need_a_user_somewhere():
    needy = (
        "{% if messages | selectattr('role', 'equalto', 'user') | list | length == 0 %}"
        "{{ raise_exception('No user query found') }}{% endif %}"
    ) + tokenizer("qwen25").chat_template
    made = TransformersChat(tokenizer("qwen25", needy))
    assert made.template.accepts.early_tool_messages
    assert not made.template.accepts.lone_tool_messages
    alone = read("qwen25", made.opening(BOTH))
    assert alone.endswith(replied("qwen25", *BOTH)[1:])  # as the template says it itself
    rules = read("qwen25", made.opening([Message("system", "Be brief.")]))
    assert "<|im_start|>user\nBe brief.<|im_end|>" in rules
    asked = [Message("system", "Be brief."), QUESTION, *BOTH]
    assert made.opening(asked) == chat("qwen25").opening(asked)


def test_system_messages_are_joined_or_said_by_the_user_where_they_have_to_be():
    rule, other = Message("system", "Be brief."), Message("system", "Be kind.")
    assert opened("gemma3", rule, other, QUESTION).startswith(
        "<bos><start_of_turn>user\nBe brief.\n\nBe kind.\n\nWho is Ada?"
    )
    assert replied("gemma3", other) == (
        "\n<start_of_turn>user\nBe kind.<end_of_turn>\n<start_of_turn>model\n"
    )
    assert "<|im_start|>system\nBe kind.<|im_end|>" in replied("qwen3", other)


@pytest.mark.parametrize(
    ("written", "problem"),
    [("{", r"tools: JSON is needed, got '\{'"), ("[1]", r"a JSON object is needed, got '\[1\]'")],
)
def test_tools_that_are_no_schema_are_refused(written, problem):
    with pytest.raises(ValueError, match=problem):
        chat("qwen25").opening([Message("system", "", tools=(written,)), QUESTION])


def test_a_chat_that_the_template_refuses_is_an_error_with_its_reason():
    touchy = tokenizer("chatml").chat_template.replace(
        "{{- '<|im_start|>'",
        "{%- if m.content == 'Who is Ada?' %}{{ raise_exception('never ask') }}{% endif -%}"
        "{{- '<|im_start|>'",
        1,
    )
    made = TransformersChat(tokenizer("chatml", touchy))
    with pytest.raises(ValueError, match="takes no chat of system, user: never ask"):
        made.opening([Message("system", "x"), QUESTION])


def test_a_template_for_parts_of_pictures_and_text_is_refused_with_its_reason():
    parts = "{% for m in messages %}{{ m.content[0].text + '<|im_end|>' }}{% endfor %}"
    with pytest.raises(ValueError, match=r"no chat of user and assistant .* has no attribute"):
        TransformersChat(tokenizer("chatml", parts))


@pytest.mark.parametrize("name", KINDS)
def test_whether_a_template_appends_is_found_out(name):
    rewriting = {
        "qwen3": ("drops the thought of an answer once a user message follows",),
        "qwen3_thinking": (
            "drops the thought of an answer once a user message follows",
            "shows before an earlier answer something else than its generation prompt",
        ),
        "gpt_oss": ("ends an earlier answer with '<|end|>', the last with '<|return|>'",),
        "mistral": ("moves rules or tools towards the end as the chat goes on",),
    }
    assert chat(name).rewriting == rewriting.get(name, ())
    assert chat(name).rewrites == (name in rewriting)


def test_the_thought_that_a_template_writes_otherwise_is_found_out():
    shouting = tokenizer("chatml").chat_template.replace("m.content +", "(m.content | upper) +")
    quiet = shouting.replace("| upper", "| replace('<think>', '(')")
    with pytest.raises(ValueError, match="leaves out what an assistant says"):
        TransformersChat(tokenizer("chatml", shouting))
    assert TransformersChat(tokenizer("chatml", quiet)).rewriting == (
        "shows a thought otherwise once a user message follows",
        "shows a thought otherwise once a tool message follows",
    )

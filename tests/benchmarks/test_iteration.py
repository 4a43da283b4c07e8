"""The episodes that TRL plays are ours, and what is made of the seconds."""

import pytest
from benchmarks.hop_calls import PARSED, HopTools, at_once, earned, taught
from benchmarks.iteration import Spent, figures
from transformers.utils.chat_parsing import parse_response

from retrograde.backends.chat import TransformersChat
from retrograde.backends.embedded import TOKENIZER, embedded_tokenizer
from retrograde.environments.hop import Hop, HopEpisode, Question
from retrograde.rendering.history import Renderer


@pytest.fixture
def tokenizer():
    return taught(str(TOKENIZER))


def played(said):
    """Environment and completion of an episode as TRL would leave them."""
    tools = HopTools()
    tools.reset(task=Hop().task("train", 3))
    for words in said[:-1]:
        tools.say(words)
    return tools, [{"role": "assistant", "content": said[-1]}]


def right_words():
    question = Question.of(Hop().task("train", 3), 3)
    searches = [
        f"search {person} {relation}"
        for person, relation in zip(question.chain, question.relations, strict=False)
    ]
    return [*searches, f"answer {question.chain[-1]}"]


def test_a_last_answer_earns_what_it_earns_with_us():
    right = right_words()
    wrong = [*right[:-1], "answer Nobody"]
    plays = [played(right), played(wrong), played(right[1:])]
    tools, completions = zip(*plays, strict=True)
    assert earned(list(tools), list(completions)) == [1.0, 0.0, 0.0]


def test_contexts_are_ours_token_by_token(tokenizer):
    chat = TransformersChat(embedded_tokenizer())
    renderer = Renderer(chat, "full")
    task = Hop().task("train", 3)
    episode = HopEpisode(task, Question.of(task, 3))
    history = renderer.open(episode.opening())
    prompt = [{"role": m.role, "content": m.content} for m in episode.opening()]
    ids = tokenizer.apply_chat_template(prompt, add_generation_prompt=True, return_dict=False)
    assert tuple(ids) == renderer.context(history)
    action = chat.said("search Ada friend")
    observation = at_once(episode.act("search Ada friend"))
    history = renderer.answered(history, action, observation.messages)
    heard = [{"role": "tool", "name": "say", "content": m.content} for m in observation.messages]
    # TRL puts what a tool says behind the very ids that were sampled.
    call = {"type": "function", "function": {"name": "say", "arguments": {}}}
    dummy = [
        {"role": "user", "content": ""},
        {"role": "assistant", "content": "", "tool_calls": [call]},
    ]
    before = tokenizer.apply_chat_template(dummy, return_dict=False)
    after = tokenizer.apply_chat_template(
        [*dummy, *heard], add_generation_prompt=True, return_dict=False
    )
    assert after[: len(before)] == before
    assert (*ids, *action, *after[len(before) :]) == renderer.context(history)


def test_whatever_is_no_answer_is_a_call():
    prefix = "<|user|> x <|end|> <|assistant|>"

    def read(text):
        return parse_response(text, PARSED, prefix=prefix)

    for words in ("<think> 3 </think> search Ada friend", "friend friend"):
        (call,) = read(f"{words} <|end|>")["tool_calls"]
        assert call["function"] == {"name": "say", "arguments": {"words": words}}
    answered = read("<think> 0 </think> answer Ada <|end|>")
    assert "tool_calls" not in answered
    assert answered["content"].strip() == "<think> 0 </think> answer Ada"


def test_the_template_can_write_calls_and_says_nothing_else_of_them(tokenizer):
    call = {"type": "function", "function": {"name": "say", "arguments": {"words": "hi"}}}
    entry = {"role": "assistant", "content": "Ada"}
    with_call = tokenizer.apply_chat_template([entry | {"tool_calls": [call]}], tokenize=False)
    assert "say" in with_call
    assert "hi" in with_call
    plain = embedded_tokenizer().apply_chat_template([entry], tokenize=False)
    assert tokenizer.apply_chat_template([entry], tokenize=False) == plain


def test_the_environment_is_not_begun_twice_nor_left_unbegun():
    with pytest.raises(RuntimeError, match="reset it first"):
        HopTools().say("search Ada friend")


def test_a_ratio_is_of_seconds_for_as_many_tokens():
    # 2 s for 1000 tokens are 20 s for 10,000; 9 s for 900 are 100 s; 6 s for 1000 are 60 s.
    spent = {
        "retrograde": [Spent(2.0, 1000, 100, 3.0), Spent(2.0, 1000, 100, 3.0)],
        "TRL": [Spent(9.0, 900, 90, 2.0), Spent(6.0, 1000, 100, 3.0)],
    }
    (figure,) = figures(spent, "embedded")
    assert (figure.lowest, figure.ratio, figure.highest) == (3.0, 4.0, 5.0)
    assert figure.reached
    assert "retrograde: 20.00 s, 1000 tokens in 100 turns" in figure.note

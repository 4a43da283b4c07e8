"""Context policies, by hand on the embedded tokenizer."""

import pytest

from retrograde.data.message import Message
from retrograde.environments.hop import RULES
from retrograde.rendering.history import Renderer

from .worlds import chat, ids

OPENING = (
    Message("system", RULES, lasting=True),
    Message("user", "Who is Ada's friend's boss?", lasting=True),
)
FIRST = ids("<think> 2 </think> search Ada friend")
SECOND = ids("<think> 1 </think> search Ben boss")
HEARD = (Message("user", "Found: Ben\nLeft: boss"),)
HEARD_LAST = (Message("user", "Found: Max\nLeft: nothing"),)


def said(text):
    """Ids of text with its special tokens, as a person would write the template out."""
    return tuple(chat().tokenizer.encode(text, add_special_tokens=False))


ASKED = f"<|system|>{RULES}<|end|><|user|>Who is Ada's friend's boss?<|end|>"
TOLD = "<|user|>Found: Ben\nLeft: boss<|end|>"
TOLD_LAST = "<|user|>Found: Max\nLeft: nothing<|end|>"
NEXT = "<|assistant|>"

SHOWN = {
    "full": ASKED + NEXT + "<think> 2 </think> search Ada friend<|end|>" + TOLD + NEXT
    + "<think> 1 </think> search Ben boss<|end|>" + TOLD_LAST + NEXT,
    "drop_thinking": ASKED + NEXT + "search Ada friend<|end|>" + TOLD + NEXT
    + "search Ben boss<|end|>" + TOLD_LAST + NEXT,
    "window": ASKED + NEXT + "search Ben boss<|end|>" + TOLD_LAST + NEXT,
    "markov": ASKED + TOLD_LAST + NEXT,
}  # fmt: skip


def after_two(policy, first=FIRST, second=SECOND):
    renderer = Renderer(chat(), policy)
    history = renderer.answered(renderer.open(OPENING), first, HEARD)
    history = renderer.answered(history, second, HEARD_LAST)
    return renderer.context(history)


@pytest.mark.parametrize("policy", SHOWN)
def test_what_is_kept_of_the_past(policy):
    assert after_two(policy) == said(SHOWN[policy])


@pytest.mark.parametrize("policy", SHOWN)
def test_nothing_is_left_out_of_an_opening(policy):
    renderer = Renderer(chat(), policy)
    assert renderer.context(renderer.open(OPENING)) == said(ASKED + NEXT)


def test_markov_forgets_an_opening_observation_but_not_the_rules():
    renderer = Renderer(chat(), "markov")
    seen = Message("user", "Found: Ada")
    history = renderer.answered(renderer.open((OPENING[0], seen)), FIRST, HEARD)
    assert renderer.context(history) == said(f"<|system|>{RULES}<|end|>" + TOLD + NEXT)


@pytest.mark.parametrize("policy", SHOWN)
def test_nothing_sampled_is_encoded_again(monkeypatch, policy):
    told = {chat().opening(OPENING), chat().reply(HEARD), chat().reply(HEARD_LAST)}
    told |= {chat().opening((*OPENING, *HEARD)), chat().opening((*OPENING, *HEARD_LAST))}
    assert len(told) == 5  # what the environment says has been encoded, and is remembered

    def refuse(*words, **options):
        raise AssertionError(f"encoded: {words} {options}")

    for name in ("encode", "__call__", "apply_chat_template", "_encode_plus"):
        monkeypatch.setattr(type(chat().tokenizer), name, refuse)
    odd = (*FIRST[:-1], *FIRST[:3], FIRST[-1])  # no tokenizer would write it like this
    after_two(policy, first=odd)


@pytest.mark.parametrize("policy", ["drop_thinking", "window"])
def test_the_words_behind_a_thought_are_the_very_ids_that_were_sampled(policy):
    unknown = chat().tokenizer.unk_token_id
    closes = said("</think>")
    answer = (*said("<think> 1"), *closes, unknown, *said("search"), unknown, chat().end_of_turn)
    context = after_two(policy, second=answer)
    kept = (unknown, *said("search"), unknown, chat().end_of_turn)
    assert context == said(SHOWN[policy].partition("search Ben boss")[0]) + kept + said(
        TOLD_LAST + NEXT
    )


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        ("search Ada friend", "search Ada friend"),
        ("<think> 2 search Ada friend", "<think> 2 search Ada friend"),  # never closed
        ("<think> 2 </think>", ""),
        ("2 </think> search Ada friend", "search Ada friend"),  # never opened
    ],
)
def test_what_counts_as_a_thought(words, kept):
    context = after_two("window", second=ids(words))
    assert context == said(f"{ASKED}{NEXT}{kept}<|end|>{TOLD_LAST}{NEXT}")


@pytest.mark.parametrize("policy", SHOWN)
def test_an_answer_that_was_cut_off_gets_the_stop_token_in_front_of_the_reply(policy):
    renderer = Renderer(chat(), policy)
    history = renderer.answered(renderer.open(OPENING), FIRST[:-1], HEARD)
    assert history.exchanges[-1].action == FIRST[:-1]  # what is trained is what was sampled
    assert history.observation == (chat().end_of_turn, *chat().reply(HEARD))
    whole = renderer.answered(renderer.open(OPENING), FIRST, HEARD)
    assert history.observation == (chat().end_of_turn, *whole.observation)
    assert renderer.context(history) == renderer.context(whole)

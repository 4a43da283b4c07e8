"""Contexts put together turn by turn are what the template says of the whole chat."""

from itertools import pairwise

import pytest
from tests.backends.tiny import model

from retrograde.backends.proof import Walked, walked
from retrograde.backends.sampler import TransformersPolicy
from retrograde.backends.trials import PLAIN, TRIALS
from retrograde.data.message import Message
from retrograde.data.tree import Group, shared_length
from retrograde.environments.hop import Hop
from retrograde.policies.protocol import Sampling
from retrograde.policies.scripted import ScriptedPolicy
from retrograde.rendering.history import Renderer
from retrograde.rollouts.grow import Grower
from retrograde.rollouts.plans import Chains

from .tokenizers_by_hand import KINDS, chat, ids, read, tokenizer

APPENDING = [name for name in KINDS if not chat(name).rewrites]
SYSTEM = [name for name in APPENDING if chat(name).template.accepts.system]
RULES = Message("system", "Be brief.")
QUESTION = Message("user", "Who is Ada's friend?")
THOUGHT = "<think>\nFirst {}.\n</think>\n\n"
CALL = '<tool_call>\n{{"name": "search", "arguments": {{"who": "{}"}}}}\n</tool_call>'
NAMES = ("Ada", "Ben", "Max", "Ida", "Sam")


def entry(message):
    return {"role": message.role, "content": message.content}


def by_template(name, entries, *, prompted=True):
    ids = tokenizer(name).apply_chat_template(
        entries, tokenize=True, add_generation_prompt=prompted, return_dict=False
    )
    return tuple(ids)


def turn_by_turn(name, policy, answers, replies, opening=(RULES, QUESTION)):
    """Contexts, and the template's ids of the whole chat at each."""
    renderer = Renderer(chat(name), policy)
    history = renderer.open(opening)
    entries = [entry(message) for message in opening]
    shown = [(renderer.context(history), by_template(name, entries))]
    for answer, messages in zip(answers, replies, strict=True):
        history = renderer.answered(history, chat(name).said(answer), messages)
        entries += [{"role": "assistant", "content": answer}, *map(entry, messages)]
        shown.append((renderer.context(history), by_template(name, entries)))
    return shown


USER_REPLIES = [(Message("user", f"Found: {name}\nLeft: boss"),) for name in NAMES]
TOOL_REPLIES = [
    (Message("tool", "Ben", name="search"),),
    (Message("tool", "Max", name="search"), Message("tool", "rain", name="weather")),
    (Message("tool", "Ida", name="search"),),
    (Message("user", "And her boss?"),),
    (Message("tool", "Sam", name="search"),),
]
PLAIN_ANSWERS = [f"search {name} friend" for name in NAMES]
CALLS = [CALL.format(name) for name in NAMES]


@pytest.mark.parametrize("name", [*SYSTEM, "qwen3", "gpt_oss"])
@pytest.mark.parametrize("policy", ["full", "drop_thinking", "window(9)"])
def test_five_turns_have_the_templates_ids(name, policy):
    for here, template in turn_by_turn(name, policy, PLAIN_ANSWERS, USER_REPLIES):
        assert here == template


@pytest.mark.parametrize("name", ["chatml", "qwen25", "llama3", "qwen3"])
def test_and_so_have_tool_calls_with_two_results_at_once(name):
    for here, template in turn_by_turn(name, "full", CALLS, TOOL_REPLIES):
        assert here == template


@pytest.mark.parametrize("name", [*SYSTEM, "gpt_oss"])
def test_thoughts_stay_where_the_template_keeps_them(name):
    answers = [THOUGHT.format(n) + a for n, a in zip(NAMES, PLAIN_ANSWERS, strict=True)]
    for here, template in turn_by_turn(name, "full", answers, USER_REPLIES):
        assert here == template


@pytest.mark.parametrize("replies", [USER_REPLIES, TOOL_REPLIES], ids=["user", "tool"])
@pytest.mark.parametrize("policy", ["drop_thinking", "window(5)"])
def test_thoughts_go_when_and_as_the_template_drops_them(policy, replies):
    answers = [THOUGHT.format(n) + a for n, a in zip(NAMES, CALLS, strict=True)]
    for here, template in turn_by_turn("qwen3", policy, answers, replies):
        assert here == template


def test_what_qwen3_keeps_of_thoughts_by_hand():
    answers = [THOUGHT.format(n) + f"search {n}" for n in NAMES]
    shown = turn_by_turn("qwen3", "drop_thinking", answers, TOOL_REPLIES)
    # Behind the third answer no user has spoken again: all thoughts are there.
    assert read("qwen3", shown[3][0]) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n"
        "<|im_start|>user\nWho is Ada's friend?<|im_end|>\n"
        "<|im_start|>assistant\n<think>\nFirst Ada.\n</think>\n\nsearch Ada<|im_end|>\n"
        "<|im_start|>user\n<tool_response>\nBen\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\n<think>\nFirst Ben.\n</think>\n\nsearch Ben<|im_end|>\n"
        "<|im_start|>user\n<tool_response>\nMax\n</tool_response>\n<tool_response>\nrain\n"
        "</tool_response><|im_end|>\n"
        "<|im_start|>assistant\n<think>\nFirst Max.\n</think>\n\nsearch Max<|im_end|>\n"
        "<|im_start|>user\n<tool_response>\nIda\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    # Behind the fourth the user has, and they are gone.
    assert "<think>" not in read("qwen3", shown[4][0])
    # full keeps them, whatever the template does
    whole = turn_by_turn("qwen3", "full", answers, TOOL_REPLIES)
    assert read("qwen3", whole[4][0]).count("<think>") == 4
    assert Renderer(chat("qwen3"), "full").keeps_what_the_template_rewrites
    assert not Renderer(chat("qwen3"), "drop_thinking").keeps_what_the_template_rewrites
    assert not Renderer(chat("qwen25"), "full").keeps_what_the_template_rewrites


def odd(name, text):
    """Ids that no tokenizer would write: letter by letter."""
    return tuple(i for letter in text for i in ids(name, letter))


@pytest.mark.parametrize("name", ["qwen3", "gpt_oss", "qwen3_thinking"])
@pytest.mark.parametrize("behind", ["", " ", "\n"])
def test_what_is_shown_of_an_answer_are_the_ids_that_were_sampled(name, behind):
    closes = ids(name, "</think>")
    words = odd(name, "search Ada <|im_end|> friend")
    assert words != ids(name, "search Ada friend")
    action = (*odd(name, "<think>\nhm"), *closes, *odd(name, "\n\n"), *words)
    action += (*odd(name, behind), chat(name).end_of_turn)
    renderer = Renderer(chat(name), "drop_thinking")
    history = renderer.answered(renderer.open([QUESTION]), action, USER_REPLIES[0])
    again = renderer.answered(history, action, USER_REPLIES[1])
    front, reply, more = (
        chat(name).opening([QUESTION]),
        chat(name).reply(USER_REPLIES[0]),
        chat(name).reply(USER_REPLIES[1]),
    )
    if name == "qwen3_thinking":  # earlier answers do not begin with what the prompt opens
        front, reply = (part[:-2] for part in (front, reply))
    end = chat(name).end_of_earlier_turn
    space = odd(name, behind)
    assert renderer.context(history)[: len(front + words + space) + 1] == (
        *front, *words, *space, end,
    )  # fmt: skip
    assert renderer.context(again) == (
        *front, *words, *space, end, *reply, *words, *space, end, *more,
    )  # fmt: skip


def test_an_answer_whose_thought_stays_is_shown_whole():
    action = (*odd("qwen3", "<think> hm</think>go"), *ids("qwen3", "</think>"))
    action += (*odd("qwen3", " go "), chat("qwen3").end_of_turn)
    renderer = Renderer(chat("qwen3"), "drop_thinking")
    history = renderer.answered(renderer.open([QUESTION]), action, TOOL_REPLIES[0])
    context = renderer.context(history)
    front = chat("qwen3").opening([QUESTION])
    assert context == front + action + chat("qwen3").reply(TOOL_REPLIES[0])


@pytest.mark.parametrize("name", KINDS)
def test_an_answer_that_was_cut_off_gets_the_templates_end_untrained(name):
    for policy in ("full", "drop_thinking"):
        renderer = Renderer(chat(name), policy)
        start = renderer.open([QUESTION])
        action = chat(name).said("search Ada")
        cut = renderer.answered(start, action[:-1], USER_REPLIES[0])
        whole = renderer.answered(start, action, USER_REPLIES[0])
        assert renderer.context(cut) == renderer.context(whole)
        assert cut.exchanges[0].action == action[:-1]
        assert cut.observation[0] == chat(name).end_of_earlier_turn


def test_an_end_that_depends_on_its_place():
    """GPT-OSS: what is trained ends as it was sampled, and is shown with another end later."""
    walk = walked(chat("gpt_oss"), PLAIN, "full")
    returns, end = chat("gpt_oss").end_of_turn, chat("gpt_oss").end_of_earlier_turn
    assert read("gpt_oss", (returns, end)) == "<|return|><|end|>"
    for i, row in enumerate(walk.rows()):
        assert row.action[-1] == returns
        assert row.context == walk.contexts[i]  # a new segment, not a crash
        assert row.context.count(returns) == 0
    before = walk.contexts[0] + walk.actions[0]
    assert shared_length(before, walk.contexts[1]) == len(before) - 1
    assert walk.contexts[1][len(before) - 1] == end


def loss_spans(walk: Walked):
    """The last context, and where in it there is loss. Only of a template that appends."""
    whole = walk.contexts[-1]
    mask = [False] * len(whole)
    for row in walk.rows():
        start, end = len(row.context), len(row.context) + len(row.action)
        assert whole[:end] == row.context + row.action
        mask[start:end] = [True] * len(row.action)
    return whole, mask


@pytest.mark.parametrize("name", APPENDING)
@pytest.mark.parametrize("trial", TRIALS, ids=lambda trial: trial.name)
def test_loss_falls_on_answers_and_their_ends_and_on_nothing_else(name, trial):
    whole, mask = loss_spans(walked(chat(name), trial, "full"))
    end = read(name, [chat(name).end_of_turn])
    trained = read(name, [i for i, on in zip(whole, mask, strict=True) if on])
    assert trained == "".join(answer + end for answer, _ in trial.exchanges)
    # each trained span ends in a stop id, and a generation prompt stands untrained before it
    prompt = chat(name).opening([QUESTION])[-1]
    for i, (on, then) in enumerate(pairwise([False, *mask])):
        if on and not then:
            assert whole[i - 1] in chat(name).stop_ids
        if then and not on:
            assert whole[i - 1] == prompt


def test_the_separator_behind_an_end_is_not_trained():
    whole, mask = loss_spans(walked(chat("qwen25"), PLAIN, "full"))
    first = mask.index(False, mask.index(True))
    assert read("qwen25", whole[first - 1 : first + 2]) == "<|im_end|>\n<|im_start|>"


@pytest.mark.parametrize("name", ["qwen3", "gpt_oss", "llama3", "gemma3"])
@pytest.mark.parametrize("context", ["full", "drop_thinking", "window(2)", "markov"])
async def test_no_tokenizer_ever_reads_what_was_sampled(monkeypatch, name, context):
    made, said = chat(name), []

    def script(shown, number):
        del shown
        text = f"<think>\nsampledthought {number}\n</think>\n\nsampledwords"
        said.append(odd(name, text)[:-1])
        return (*said[-1], made.end_of_turn)

    kind = type(tokenizer(name))
    plain = {method: getattr(kind, method) for method in ("encode", "apply_chat_template")}

    def watched(method):
        def call(self, *words, **options):
            assert "sampled" not in repr(words) + repr(options)
            return plain[method](self, *words, **options)

        return call

    environment = Hop(hops=5, context=context)
    growing = Grower(
        environment, Renderer(made, context), ScriptedPolicy(script), Sampling(1.0, 99)
    )
    with monkeypatch.context() as patch:
        for method in plain:
            patch.setattr(kind, method, watched(method))
        start = [Group(environment.task("train", 0))]
        (group,) = await growing.grow(start, Chains(2)(start, 0), 0, 1)
    assert max(tree.depths[-1] for tree in group.trees) == 5
    for tree in group.trees:
        for turn in tree.turns:
            assert turn.action[:-1] in said


async def test_length_is_measured_on_what_is_shown():
    """A window fits where everything would not, and what does not fit is refused, not cut."""
    made = model()
    limit = made.config.max_position_embeddings
    renderers = {policy: Renderer(chat("qwen25"), policy) for policy in ("full", "window")}
    for policy, renderer in renderers.items():
        history = renderer.open([QUESTION])
        while len(Renderer(chat("qwen25"), "full").context(history)) + 8 <= limit:
            history = renderer.answered(history, chat("qwen25").said("go"), USER_REPLIES[0])
        shown = tuple(i % 24 for i in renderer.context(history))
        asked = TransformersPolicy(made, frozenset({3})).sample([shown], Sampling(1.0, 8), 0)
        if policy == "window":
            assert len(await asked) == 1
        else:
            with pytest.raises(ValueError, match=f"a context of {len(shown)} tokens"):
                await asked

"""What ends an answer: every token that anybody says does; kept, scored and trained."""

import copy

import pytest
import torch
from tests.rendering.test_chat import CHATML, chatml
from transformers import AutoModelForCausalLM, AutoTokenizer

from retrograde.backends.chat import TransformersChat
from retrograde.backends.flat import action_logp
from retrograde.backends.models import load_model
from retrograde.backends.recommended import PRETRAINED
from retrograde.backends.sampler import TransformersPolicy
from retrograde.backends.stops import Stops, padding_id
from retrograde.data.message import Message
from retrograde.data.rows import Row
from retrograde.losses.policy import PolicyLoss
from retrograde.policies.protocol import Sampling
from retrograde.rendering.history import Renderer

from .architectures import directory
from .tiny import learner, model

DRAWN = Sampling(1.0, 8)
# As gpt-oss does: what was said last ends otherwise than what was said before.
BY_PLACE = CHATML.replace("'<|im_end|>'", "('<|im_end|>' if loop.last else '<|endoftext|>')")


def number(tokenizer, token):
    return tokenizer.convert_tokens_to_ids(token)


@pytest.mark.parametrize(("named", "more"), [(None, set()), (7, {7}), ([7, 9], {7, 9})])
def test_stops_are_those_of_config_template_and_tokenizer(named, more):
    words = chatml()
    end, eos = number(words, ["<|im_end|>", "<|endoftext|>"])
    stops = Stops.of(words, named)
    assert stops.ids == {end, eos} | more
    assert (stops.end_of_turn, stops.end_between) == (end, end)


def test_a_tokenizer_without_an_end_of_its_own_has_the_templates():
    words = chatml()
    words.eos_token = None
    assert Stops.of(words).ids == {number(words, "<|im_end|>")}


def test_an_end_that_depends_on_its_place_is_known_in_both():
    words = chatml(BY_PLACE)
    end, eos = number(words, ["<|im_end|>", "<|endoftext|>"])
    words.eos_token = None  # so that it is known from the template alone
    chat = TransformersChat(words)
    assert (chat.stops.end_of_turn, chat.stops.end_between) == (end, eos)
    assert chat.stop_ids == {end, eos}
    # What follows is the same, whichever of them was sampled.
    assert words.decode(chat.reply([Message("user", "x")])) == (
        "\n<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n"
    )


async def drawn(made, stops):
    (answer,) = await TransformersPolicy(made, frozenset(stops)).sample([(1, 2, 3)], DRAWN, seed=2)
    return answer


async def test_any_of_the_stops_ends_an_answer_and_is_part_of_it():
    """Else an answer that its own model calls finished would count as cut off."""
    made = model()
    free = await drawn(made, {99})
    assert len(free.ids) == DRAWN.max_new_tokens
    assert not free.stopped
    third = free.ids[2]
    assert third not in free.ids[:2]
    for stops in ({third}, {third, 99}, {99, third, 98}):
        ended = await drawn(made, stops)
        assert ended.ids == free.ids[:3]
        assert ended.stopped
        assert len(ended.logprobs) == len(ended.ids)
        (scored,) = action_logp(made, [(1, 2, 3)], [ended.ids], 1.0, 0)
        assert ended.logprobs[-1] == pytest.approx(scored[-1].item(), abs=1e-5)


def test_the_stop_token_is_trained_and_alone_if_it_is_all_that_was_said():
    made = model()
    row = Row((1, 2, 4), (3,), (-3.0,), 1.0, 0, 0, (0, 0, 0, 0))
    owner = learner(made)
    (before,), _ = owner.score([row]), owner.step([row], PolicyLoss())
    (after,) = owner.score([row])
    assert after[0] > before[0] + 0.01


def test_the_span_that_trains_ends_with_the_stop_that_was_sampled_and_none_is_added():
    """One token that ends a turn between an answer and the words of the next message."""
    chat = TransformersChat(chatml(), generation_eos=number(chatml(), "<|endoftext|>"))
    renderer = Renderer(chat, "full")
    history = renderer.open([Message("user", "x")])
    said = tuple(chat.tokenizer.encode("Ada", add_special_tokens=False))
    for stop in sorted(chat.stop_ids):
        action = (*said, stop)
        shown = renderer.context(renderer.answered(history, action, [Message("user", "y")]))
        opening = renderer.context(history)
        assert shown[: len(opening) + len(action)] == (*opening, *action)
        assert shown[len(opening) + len(action)] not in chat.stop_ids
    cut = renderer.context(renderer.answered(history, said, [Message("user", "y")]))
    assert cut[len(opening) + len(said)] == chat.end_of_turn


def test_padding_with_the_end_of_a_turn_takes_nothing_from_the_loss():
    """Were padding told from ids, the ends of answers would neither be seen nor trained."""
    made, end = model(dtype=torch.float64), 3
    rows = [
        Row((1, end, 2), (end, 7, end), (-3.0,) * 3, 1.0, 0, 0, (0, 0, 0, 0)),
        Row((4, 1, end, 8, 6), (2, end), (-3.0,) * 2, -0.5, 0, 1, (0, 0, 1, 1)),
    ]
    gradients = []
    for pad in (end, 0):
        owner = learner(copy.deepcopy(made), pad=pad)
        assert owner.step(rows, PolicyLoss())["tokens/trained"] == 5
        gradients.append([p.grad for p in owner.model.parameters()])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, atol=1e-12, rtol=0)


def test_the_end_of_a_turn_has_a_gradient_in_what_was_said_though_it_pads(tmp_path):
    """transformers gives the embedding of a padding token none."""
    source = directory("llama", tmp_path)
    end = load_model(source, PRETRAINED).chat.end_of_turn
    row = Row((5, end, 6), (7, 8), (-3.0,) * 2, 1.0, 0, 0, (0, 0, 0, 0))

    def moved(made):
        learner(made, pad=end).step([row], PolicyLoss())
        return made.get_input_embeddings().weight.grad[end].abs().sum()

    plain = AutoModelForCausalLM.from_pretrained(source)
    plain.config.pad_token_id = end
    plain.save_pretrained(tmp_path)
    words = AutoTokenizer.from_pretrained(source)
    words.pad_token = words.convert_ids_to_tokens(end)
    words.save_pretrained(tmp_path)
    assert moved(AutoModelForCausalLM.from_pretrained(source)) == 0
    loaded = load_model(source, PRETRAINED)
    assert loaded.tokenizer.pad_token_id == loaded.model.config.pad_token_id == end
    assert moved(loaded.model) > 0


def test_a_padding_token_is_chosen_among_those_there_are():
    words = chatml()
    stops = Stops.of(words)
    assert words.pad_token_id is None
    assert padding_id(words, stops, None) == stops.end_of_turn
    assert padding_id(words, stops, len(words) + 5) == stops.end_of_turn  # no such token
    words.unk_token = "Ġ"
    assert padding_id(words, stops, None) == number(words, "Ġ")
    words.add_tokens(["<unused_1>", "<right_pad>"], special_tokens=True)
    assert padding_id(words, stops, None) == number(words, "<right_pad>")
    assert padding_id(words, stops, 3) == 3
    words.pad_token = "<unused_1>"
    assert padding_id(words, stops, 3) == number(words, "<unused_1>")


def test_a_model_without_padding_gets_one_and_no_more_embeddings(tmp_path):
    source = directory("llama", tmp_path / "a")
    assert AutoTokenizer.from_pretrained(source).pad_token is None
    loaded = load_model(source, PRETRAINED)
    loaded.save(tmp_path / "b")
    words = AutoTokenizer.from_pretrained(tmp_path / "b")
    plain = AutoModelForCausalLM.from_pretrained(tmp_path / "b")
    assert words.pad_token == "<|finetune_right_pad_id|>"
    assert plain.config.pad_token_id == plain.generation_config.pad_token_id == words.pad_token_id
    was = AutoModelForCausalLM.from_pretrained(source)
    assert plain.get_input_embeddings().weight.shape == was.get_input_embeddings().weight.shape
    assert len(words) == len(AutoTokenizer.from_pretrained(source))


def test_plain_generate_stops_where_answers_did(tmp_path):
    """A base model's own files often name the end of a text alone, not that of a turn."""
    source = directory("qwen2", tmp_path / "a")
    base = AutoModelForCausalLM.from_pretrained(source)
    base.generation_config.eos_token_id = None
    base.save_pretrained(source)
    words = AutoTokenizer.from_pretrained(source)
    words.eos_token = "<|endoftext|>"
    words.save_pretrained(source)
    loaded = load_model(source, PRETRAINED)
    ends = number(words, ["<|endoftext|>", "<|im_end|>"])
    assert loaded.chat.stop_ids == set(ends)
    loaded.save(tmp_path / "b")
    plain = AutoModelForCausalLM.from_pretrained(tmp_path / "b")
    assert plain.generation_config.eos_token_id == sorted(ends)

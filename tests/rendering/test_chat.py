"""The shipped tokenizer, and chat templates that nothing is assumed of."""

import importlib.util
import random
from pathlib import Path

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from retrograde.backends.chat import TransformersChat
from retrograde.backends.embedded import TOKENIZER, embedded_tokenizer
from retrograde.data.message import Message
from retrograde.environments.hop import Hop
from retrograde.environments.lake import DIRECTIONS, Lake
from retrograde.environments.market import Market
from retrograde.rendering.history import Renderer

CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + "
    "'\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def chatml(template=CHATML) -> PreTrainedTokenizerFast:
    bytes_alone = pre_tokenizers.ByteLevel(add_prefix_space=False)
    built = Tokenizer(models.BPE())
    built.pre_tokenizer, built.decoder = bytes_alone, decoders.ByteLevel()
    sentences = ["search Ada friend", "Who is Ada's friend's boss?", "Found: Max\nLeft: boss\n"]
    trainer = trainers.BpeTrainer(
        vocab_size=330, initial_alphabet=bytes_alone.alphabet(), show_progress=False
    )
    built.train_from_iterator(sentences * 3, trainer)
    specials = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"]
    built.add_special_tokens([AddedToken(token, normalized=False) for token in specials])
    return PreTrainedTokenizerFast(
        tokenizer_object=built, eos_token="<|endoftext|>", chat_template=template
    )


def word_level() -> PreTrainedTokenizerFast:
    return embedded_tokenizer()


@pytest.fixture(scope="module", params=[word_level, chatml])
def tokenizer(request):
    return request.param()


def test_a_chat_put_together_piece_by_piece_is_what_the_template_says(tokenizer):
    chat = TransformersChat(tokenizer)
    messages = [Message("system", "Search Ada friend ."), Message("user", "Who is Ada's friend?")]
    ids = list(chat.opening(messages))
    whole = [{"role": m.role, "content": m.content} for m in messages]
    for turn, name in enumerate(("Ada", "Ben", "Max", "Ada", "Sam")):
        answer, heard = (
            f"<think> {turn} </think> search {name} friend",
            f"Found: {name}\nLeft: boss",
        )
        ids += [*tokenizer.encode(answer, add_special_tokens=False), chat.end_of_turn]
        ids += chat.reply([Message("user", heard)])
        whole += [{"role": "assistant", "content": answer}, {"role": "user", "content": heard}]
        expected = tokenizer.apply_chat_template(
            whole, tokenize=True, add_generation_prompt=True, return_dict=False
        )
        assert ids == expected


def test_several_messages_can_follow_an_answer(tokenizer):
    chat = TransformersChat(tokenizer)
    both = [Message("tool", "Found: Ada"), Message("user", "Left: boss")]
    text = tokenizer.decode(chat.reply(both))
    assert text.index("Found:") < text.index("Left:")
    assert chat.reply(both) is chat.reply(tuple(both))  # kept, not rendered again


def test_a_stop_token_is_found_behind_an_answer():
    tokenizer = chatml()
    chat = TransformersChat(tokenizer, generation_eos=[3, 4])
    end, eos = tokenizer.convert_tokens_to_ids(["<|im_end|>", "<|endoftext|>"])
    assert chat.end_of_turn == end
    assert chat.stop_ids == {3, 4, end, eos}
    assert TransformersChat(tokenizer, generation_eos=7).stop_ids == {7, end, eos}
    newline = tokenizer.encode("\n", add_special_tokens=False)
    assert list(chat.reply([Message("user", "x")])[: len(newline)]) == newline


def test_a_space_before_the_stop_token_is_no_part_of_it():
    spaced = chatml(CHATML.replace("'<|im_end|>'", "' <|im_end|>'"))
    plain = TransformersChat(chatml())
    chat = TransformersChat(spaced)
    assert chat.end_of_turn == plain.end_of_turn
    assert spaced.decode(chat.reply([Message("user", "x")])) == (
        "\n<|im_start|>user\nx <|im_end|>\n<|im_start|>assistant\n"
    )


@pytest.mark.parametrize(
    ("template", "complaint"),
    [
        (None, "a tokenizer with a chat template is needed"),
        ("{% for m in messages %}{{ m['content'] + '\n' }}{% endfor %}", "puts '' there"),
        ("{% for m in messages %}{{ m['role'] }}{% endfor %}", "leaves out what an assistant says"),
    ],
)
def test_a_template_that_cannot_be_used_is_refused(template, complaint):
    with pytest.raises(ValueError, match=complaint):
        TransformersChat(chatml(template))


def test_a_template_whose_stop_token_depends_on_what_follows_is_refused():
    fickle = CHATML.replace(
        "'<|im_end|>'",
        "('<|endoftext|>' if not loop.last and loop.nextitem.role == 'tool' else '<|im_end|>')",
    )
    chat = TransformersChat(chatml(fickle))
    chat.reply([Message("user", "x")])
    with pytest.raises(ValueError, match=r"puts '<\|im_end\|>' behind .* but '<\|endoftext\|>"):
        chat.reply([Message("tool", "x")])


def test_decoding_leaves_out_stops_and_keeps_all_else(tokenizer):
    chat = TransformersChat(tokenizer)
    text = "<think> 3 </think> search Ada friend"
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert chat.decode([*ids, chat.end_of_turn]) == text
    assert chat.decode([*chat.opening([Message("user", "Ada")]), *ids]) != text
    assert chat.decode([chat.end_of_turn]) == ""


def test_the_shipped_tokenizer_is_what_the_script_builds(tmp_path):
    path = Path(__file__).parents[2] / "scripts" / "build_tokenizer.py"
    spec = importlib.util.spec_from_file_location("build_tokenizer", path)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.main([str(tmp_path)]) == 0
    built = {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()}
    assert built == {entry.name: entry.read_bytes() for entry in TOKENIZER.iterdir()}
    assert set(built) == {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"}


def test_the_shipped_tokenizer_reads_tags_as_words_and_pads_on_the_left():
    tokenizer = embedded_tokenizer()
    assert tokenizer.padding_side == "left"
    assert (tokenizer.pad_token, tokenizer.unk_token, tokenizer.eos_token) == (
        "<|pad|>", "<|unk|>", "<|end|>",
    )  # fmt: skip
    assert not {"<think>", "</think>"} & set(tokenizer.all_special_tokens)
    ids = tokenizer.encode("<think> 3 </think>", add_special_tokens=False)
    assert tokenizer.decode(ids, skip_special_tokens=True) == "<think> 3 </think>"
    assert sorted(tokenizer.get_vocab().values()) == list(range(len(tokenizer)))


ALL = [Hop(hops=hops) for hops in range(1, 6)] + [Lake(), Lake(turns=16, slip=True)]
ALL += [Market(), Market(turns=8, luck=0.0)]


@pytest.mark.parametrize("environment", ALL, ids=str)
async def test_the_shipped_tokenizer_knows_every_word_that_is_said(environment):
    tokenizer, chance = embedded_tokenizer(), random.Random(0)
    chat = TransformersChat(tokenizer)
    renderer, unknown = Renderer(chat, environment.context), tokenizer.unk_token_id
    longest = 0
    for number in range(60):
        task = environment.task(("train", "test")[number % 2], number)
        episode = await environment.open(task, number)
        history, end = renderer.open(episode.opening()), None
        while end is None:
            taught = episode.demonstrate(chance.randrange(1 << 30))
            text = chance.choice(
                [taught, taught, "<think>", f"go {chance.choice(list(DIRECTIONS))}"]
            )
            action = (*tokenizer.encode(text, add_special_tokens=False), chat.end_of_turn)
            context = renderer.context(history)
            assert unknown not in {*context, *history.observation, *action}
            assert chat.decode(action) == text
            longest = max(longest, len(context), len(action))
            said = await episode.act(chat.decode(action))
            end = said.end
            if end is None:
                history = renderer.answered(history, action, said.messages)
    assert longest <= 36

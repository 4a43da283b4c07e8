"""Puzzles of reasoning-gym as tasks with several attempts."""

import dataclasses
import itertools
import json
import random
import subprocess
import sys

import pytest

from retrograde.algorithms.fit import obstacles
from retrograde.algorithms.leap import leap
from retrograde.data.offer import Offer
from retrograde.data.tree import End
from retrograde.environments.confined.judge import JUDGE, JudgeError
from retrograde.environments.reasoning import countdown, reasoning
from retrograde.environments.reasoning.puzzles import Puzzle, puzzle_of
from retrograde.environments.reasoning.reasoning import Reasoning, answer_in, parsed_config
from retrograde.environments.registry import environment_named

pytest.importorskip("reasoning_gym")
KNOWN = ("countdown", "n_queens", "mini_sudoku")
SAMPLE = (
    "acre", "arc_1d", "base_conversion", "basic_arithmetic", "caesar_cipher", "chain_sum",
    "codeio", "family_relationships", "figlet_font", "gsm_symbolic", "knights_knaves", "maze",
    "number_sequence", "polynomial_multiplication", "propositional_logic", "rush_hour", "sokoban",
    "spell_backward", "syllogism", "word_ladder",
)  # fmt: skip
WITHOUT_GOLD = {"boxnet", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour"}
"""Data sets that give no answer."""
NEEDS_OPTIONS = {"composite"}


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<answer>1 + 2</answer>", "1 + 2"),
        ("<answer>1</answer> or rather <answer>\n2\n</answer>.", "2"),
        ("<think><answer>1</answer></think> 2 ", "2"),
        ("1 + 2\n", "1 + 2"),
        ("<answer>a\nb</answer>", "a\nb"),
        ("<answer>1", "<answer>1"),
        ("<answer> </answer>", ""),
        ("<think> 1", ""),
        ("", ""),
    ],
)
def test_the_last_answer_outside_thought_is_read(text, answer):
    assert answer_in(text) == answer


def test_options_are_pairs_or_json():
    assert parsed_config("") == {}
    assert parsed_config("n=6, word = a b ,flag=true") == {"n": 6, "word": "a b", "flag": True}
    assert parsed_config('{"operators": ["+", "-"]}') == {"operators": ["+", "-"]}
    for wrong in ("n", "n=1,,", "=1", "{n}", "{1"):
        with pytest.raises(ValueError, match="config: "):
            parsed_config(wrong)


async def attempts(environment, *answers, task="train-0"):
    episode = await environment.open(task, 0)
    return episode, [await episode.act(f"<answer>{answer}</answer>") for answer in answers]


async def test_an_episode_worked_by_hand(monkeypatch):
    # Using 5, 9 and 6, make 2: 6 - 9 + 5.
    puzzle = Puzzle("Make 2 of 5, 9, 6.", "6 - 9 + 5", {}, {})
    scores = {"6 - 9 + 5": 1.0, "5 + 9 + 6": 0.05, "words": 0.01}
    monkeypatch.setattr(Puzzle, "score", lambda _self, text, _seconds: scores[text])
    monkeypatch.setattr(Reasoning, "_puzzle", lambda *_: puzzle)
    for feedback, heard in {
        "none": "Answer again.",
        "binary": "That is not right. Answer again.",
        "score": "That scores 0.05 of 1. Answer again.",
    }.items():
        environment = Reasoning("countdown", feedback=feedback)
        episode, (first, second) = await attempts(environment, "5 + 9 + 6", "6 - 9 + 5")
        assert [m.content for m in episode.opening()] == [environment.rules, puzzle.question]
        assert [m.content for m in first.messages] == [heard]
        assert (first.reward, first.end, first.score) == (0.0, None, 0.05)
        assert (second.messages, second.reward, second.end) == ((), 1.0, End.FINISHED)
        assert second.score == 1.0
        assert dict(second.measures) == {"right_first": 0.0, "final_score": 1.0}
        with pytest.raises(RuntimeError, match=r"train-0.*over"):
            await episode.act("more")
    _, said = await attempts(Reasoning("countdown", attempts=2), "words", "5 + 9 + 6")
    assert [(o.reward, o.end, o.score) for o in said] == [
        (0.0, None, 0.01), (0.0, End.TRUNCATED, 0.05),
    ]  # fmt: skip
    _, (only,) = await attempts(Reasoning("countdown"), "6 - 9 + 5")
    assert dict(only.measures)["right_first"] == 1.0


@pytest.mark.parametrize("name", KNOWN)
async def test_gold_is_right_and_other_answers_are_not(name):
    environment = environment_named(f"reasoning:{name}")()
    assert environment.name == f"reasoning:{name}"
    assert environment.offers == {Offer.ATTEMPTS, Offer.SCORES, Offer.GOLD}
    for split, i in itertools.product(("train", "test"), range(8)):
        task = environment.task(split, i)
        episode = await environment.open(task, i)
        said = await episode.act(environment.gold(task))
        assert (said.reward, said.end, said.score) == (1.0, End.FINISHED, 1.0)
        episode = await environment.open(task, i)
        said = await episode.act("<answer>I do not know</answer>")
        assert said.end is None
        assert said.score < 1.0


async def test_a_partly_right_answer_keeps_its_partial_score():
    environment = Reasoning("mini_sudoku", feedback="score")
    gold = answer_in(environment.gold("train-0"))
    # One of sixteen numbers changed: 15/16 of the cells, of which the package takes 0.9.
    nearly = ("1" if gold[0] != "1" else "2") + gold[1:]
    _, (said,) = await attempts(environment, nearly)
    assert said.score == pytest.approx(0.9 * 15 / 16)
    assert said.messages[0].content == "That scores 0.84 of 1. Answer again."


async def test_answers_that_cannot_be_scored_are_wrong_and_counted(monkeypatch):
    monkeypatch.setattr(reasoning, "SCORING_SECONDS", 0.5)
    environment = Reasoning("countdown", attempts=2)
    episode = await environment.open("train-0", 0)
    said = [await episode.act(text) for text in ("<think> hm", "9**9**9**9**9")]
    assert [o.events for o in said] == [("answer/malformed",), ("answer/timeout",)]
    assert said[0].messages[0].content == reasoning.MALFORMED
    assert [o.score for o in said] == [0.0, 0.0]
    assert said[1].end is End.TRUNCATED
    episode = await Reasoning("prime_factorization").open("train-0", 0)
    assert (await episode.act("no idea")).events == ("answer/unreadable",)


async def test_a_fork_goes_its_own_way():
    environment = Reasoning("countdown")
    episode, _ = await attempts(environment, "1")
    twin = episode.fork(7)
    assert twin.state_key() == episode.state_key()
    assert (await twin.act(environment.gold("train-0"))).end is End.FINISHED
    assert (await episode.act("2")).end is None
    assert twin.state_key() != episode.state_key()


@pytest.mark.parametrize("name", KNOWN)
def test_splits_share_no_puzzle_whatever_its_words(name):
    environment = Reasoning(name)
    drawn = {
        split: [environment._puzzle(environment.task(split, i)) for i in range(60)]
        for split in ("train", "test")
    }
    known = {
        split: {
            json.dumps([sorted(p.about["numbers"]), p.about["target"]])
            if name == "countdown"
            else p.question
            for p in puzzles
        }
        for split, puzzles in drawn.items()
    }
    assert not known["train"] & known["test"]
    assert min(len(found) for found in known.values()) > 20


def test_puzzles_do_not_depend_on_the_process():
    # word_ladder walks over sets, so its puzzles depend on the seed of Python's hashes.
    code = (
        "from retrograde.environments.reasoning.puzzles import puzzle_of\n"
        "print([puzzle_of('word_ladder', '{}', f'train-{i}').question for i in range(3)])"
    )
    here = [puzzle_of("word_ladder", "{}", f"train-{i}").question for i in range(3)]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout.decode().strip() == str(here)


def test_presets_can_be_left_and_changed():
    assert Reasoning("n_queens").options == {"n": 6, "min_remove": 1, "max_remove": 3}
    assert Reasoning("n_queens", config="n=5").options["n"] == 5
    assert Reasoning("countdown", setting="package").options == {}
    assert "6 x 6" in Reasoning("n_queens")._puzzle("test-0").question
    assert Reasoning("chain_sum").options == {}


def test_what_is_not_known_is_refused_with_what_is():
    for arguments, problem in {
        ("",): r"name of a data set is needed, as in reasoning:countdown; some of the \d+ are",
        ("countdwn",): "no reasoning-gym data set is named 'countdwn'; did you mean countdown",
        ("countdown", "binary", 0): "attempts: got 0, needed 1 to 16",
        ("countdown", "binary", 3, "max_valu=3"): "config: countdown takes .*max_value.*'max_valu'",
        ("countdown", "binary", 3, "seed=3"): "config: countdown takes",
        ("countdown", "binary", 3, "min_numbers=1"): "config: .*min_numbers must be greater",
        ("composite",): "config: composite with .*at least one",
    }.items():
        with pytest.raises(ValueError, match=problem):
            Reasoning(*arguments)
    with pytest.raises(ValueError, match="answer_tokens: got 0"):
        Reasoning("countdown", answer_tokens=0)
    with pytest.raises(ValueError, match="reasoning:countdown has no task 'train--1'"):
        Reasoning("countdown").gold("train--1")


def test_a_data_set_with_too_few_puzzles_says_so():
    # One number of one value is one puzzle, which belongs to one of the splits.
    only = '{"min_n": 3, "max_n": 3}'
    puzzle = puzzle_of("count_bits", only, "test-0")
    assert "3" in puzzle.question
    with pytest.raises(JudgeError, match="none belongs to train"):
        puzzle_of("count_bits", only, "train-0")


def test_it_is_plain_data():
    environment = Reasoning("countdown", feedback="score")
    assert Reasoning(**dataclasses.asdict(environment)) == environment
    assert not obstacles(leap(), environment)


def test_the_teacher_of_countdown_guesses_and_is_careless():
    about = {"numbers": [5, 9, 6], "target": 8, "expression": "5 + 9 - 6"}
    chance, draws = random.Random(0), 1000
    said = [countdown.taught(about, ("+", "-"), chance) for _ in range(draws)]
    # The operators are known, or one of the four guesses is right; and the numbers are right, or
    # the wrong one happens to be the right one, as one in nine does.
    for place, expected in (
        (1, countdown.KNOWN + (1 - countdown.KNOWN) / 4),
        (0, 1 - countdown.CARELESS * 8 / 9),
    ):
        found = [text.split()[place::2] for text in said]
        share = sum(parts == ["5", "+", "9", "-", "6"][place::2] for parts in found) / draws
        assert abs(share - expected) < 4 * (expected * (1 - expected) / draws) ** 0.5
    assert all(len(text.split()) == 5 for text in said)


def test_numbers_are_taken_from_left_to_right():
    assert countdown.worth((3, 7, 2), ("+", "*")) == 20
    assert countdown.written((3, 7, 2), ("+", "*")) == "( 3 + 7 ) * 2"
    assert countdown.written((3, 7, 2), ("*", "-")) == "3 * 7 - 2"
    assert countdown.written((3, 7, 2, 4), ("-", "/", "+")) == "( 3 - 7 ) / 2 + 4"
    assert countdown.worth((3, 0), ("/",)) is None
    assert countdown.worth((3, 2), ("/",)) == 1.5
    assert countdown.spaced("1*(3 + 7)/10") == "1 * ( 3 + 7 ) / 10"


def test_the_embedded_tokenizer_knows_every_word_and_the_scorer_reads_what_it_decodes():
    from retrograde.backends.embedded import embedded_tokenizer

    environment = Reasoning("countdown", config='{"operators": ["+", "-", "*"]}')
    tokenizer = embedded_tokenizer(environment.vocabulary)
    for i in range(30):
        puzzle = environment._puzzle(f"train-{i}")
        asked = tokenizer.encode(puzzle.question)
        assert tokenizer.unk_token_id not in asked
        assert len(asked) <= 10  # the rest is phrases
        said = tokenizer.encode(environment.gold(f"train-{i}"))
        assert tokenizer.unk_token_id not in said
        assert puzzle.score(answer_in(tokenizer.decode(said)), 5) == 1.0
    heard = (environment.rules, reasoning.MALFORMED, reasoning.WRONG, reasoning.AGAIN)
    assert all(len(tokenizer.encode(text)) == 1 for text in heard)


async def test_only_countdown_has_a_teacher_and_a_vocabulary():
    environment = Reasoning("n_queens")
    assert environment.vocabulary is None
    with pytest.raises(LookupError, match="reasoning:n_queens has no teacher"):
        (await environment.open("train-0", 0)).demonstrate(0)


async def opens_and_knows(name: str) -> bool:
    """Whether the package's own answer scores 1, on an episode of the data set."""
    environment = Reasoning(name)
    knows = Offer.GOLD in environment.offers
    episode = await environment.open("test-0", 0)
    if not knows:
        assert (await episode.act("words")).score < 1.0
        with pytest.raises(LookupError, match=f"reasoning:{name} does not know"):
            environment.gold("train-0")
        return False
    said = await episode.act(environment.gold("test-0"))
    assert (said.reward, said.score) == (1.0, 1.0)
    return True


@pytest.mark.parametrize("name", SAMPLE)
async def test_any_data_set_opens_and_its_own_answer_is_right(name):
    assert await opens_and_knows(name) == (name not in WITHOUT_GOLD)


@pytest.mark.slow
async def test_every_data_set_opens_and_all_but_five_know_their_answers():
    names = [name for name in JUDGE.ask("names") if name not in NEEDS_OPTIONS]
    assert len(names) > 100
    assert {name for name in names if not await opens_and_knows(name)} == WITHOUT_GOLD


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch):
    from retrograde.environments import extras

    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    with pytest.raises(ValueError, match=r"pip install 'retrograde\[reasoning\]'"):
        Reasoning("countdown")

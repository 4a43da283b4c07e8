"""Maths problems with Python at hand."""

import asyncio
import dataclasses

import pytest

from retrograde.data.offer import Offer
from retrograde.data.tree import End
from retrograde.environments import math_python
from retrograde.environments.confined.judge import JUDGE
from retrograde.environments.confined.sandbox import Ending, Execution
from retrograde.environments.math_python import MALFORMED, MathPython, Said, shown_of
from retrograde.environments.reasoning.puzzles import Puzzle
from retrograde.environments.registry import environment_named

pytest.importorskip("math_verify")
pytest.importorskip("reasoning_gym")


def world(**options) -> MathPython:
    """One that runs on any machine."""
    return MathPython(**{"isolation": "limits", "datasets": "chain_sum", **options})


@pytest.mark.parametrize(
    ("text", "code", "answer"),
    [
        ("<python>1 + 1</python>", "1 + 1", None),
        ("<python>\nx = 1\nif x:\n    x\n</python>", "x = 1\nif x:\n    x", None),
        ("<python>```python\n1 + 1\n```</python>", "1 + 1", None),
        ("<answer>42</answer>", None, "42"),
        ("so \\boxed{42}", None, "so \\boxed{42}"),
        ("<think><python>1</python></think><answer>2</answer>", None, "2"),
        # What stands behind the first call is made up: its output has not been seen.
        ("<python>1</python><output>7</output><answer>7</answer>", "1", None),
        ("<answer>1</answer><python>2</python>", None, "1"),
        ("<python>1", None, None),
        ("<python> </python>", None, None),
        ("42", None, None),
        ("<think><answer>42</answer>", None, None),
        ("", None, None),
    ],
)
def test_the_first_closed_tag_outside_thought_counts(text, code, answer):
    assert Said.of(text) == Said(code, answer)


@pytest.fixture
def sum_of_two(monkeypatch):
    puzzle = Puzzle("What is 57 + 87?", "144", {}, {})
    monkeypatch.setattr(MathPython, "_puzzle", lambda *_: puzzle)


@pytest.mark.usefixtures("sum_of_two")
async def test_an_episode_worked_by_hand():
    environment = world()
    episode = await environment.open("train-0", 0)
    rules, question = episode.opening()
    assert rules.content.endswith("You have 4 turns.")
    assert question.content == "What is 57 + 87?"
    said = [
        await episode.act(text)
        for text in ("hm", "<python>print(57 + 87)</python>", "<answer>144</answer>")
    ]
    assert [o.messages[0].content for o in said[:2]] == [MALFORMED, "<output>\n144\n</output>"]
    assert [o.events for o in said] == [("call/malformed",), ("python/ok",), ()]
    assert [(o.reward, o.end) for o in said] == [(0.0, None), (0.0, None), (1.0, End.FINISHED)]
    assert dict(said[2].measures) == {"correct": 1.0, "python_calls": 1.0}
    with pytest.raises(RuntimeError, match=r"train-0.*over"):
        await episode.act("more")


@pytest.mark.usefixtures("sum_of_two")
@pytest.mark.parametrize("answer", ["145", "57 + 87", "144, 145", "no idea"])
async def test_a_wrong_answer_ends_the_episode(answer):
    episode = await world().open("train-0", 0)
    said = await episode.act(f"<answer>{answer}</answer>")
    assert (said.reward, said.end) == (0.0, End.FINISHED)


@pytest.mark.usefixtures("sum_of_two")
async def test_turns_run_out_and_code_in_the_last_is_not_run():
    episode = await world(turns=2).open("train-0", 0)
    first = await episode.act("<python>1</python>")
    assert first.end is None
    last = await episode.act("<python>import time; time.sleep(99)</python>")
    assert (last.reward, last.end, last.events) == (0.0, End.TRUNCATED, ())
    assert dict(last.measures)["python_calls"] == 1.0


async def test_an_answer_that_cannot_be_checked_is_wrong_and_counted(monkeypatch):
    monkeypatch.setattr(math_python, "CHECKING_SECONDS", 0.5)
    puzzle = Puzzle("Simplify x*x.", "x**2", {}, {})
    monkeypatch.setattr(MathPython, "_puzzle", lambda *_: puzzle)
    episode = await world(turns=1).open("train-0", 0)
    said = await episode.act("<answer>x^{9^{9^{9^{9}}}}</answer>")
    assert (said.reward, said.end, said.events) == (0.0, End.FINISHED, ("answer/timeout",))


@pytest.mark.usefixtures("sum_of_two")
async def test_bad_code_is_told_and_counted():
    episode = await world(seconds=1).open("train-0", 0)
    raised = await episode.act("<python>1 / 0</python>")
    assert raised.messages[0].content.endswith("ZeroDivisionError: division by zero\n</output>")
    stuck = await episode.act("<python>print('on')\nwhile True: pass</python>")
    assert stuck.messages[0].content == "<output>\non\n[stopped: it took too long]\n</output>"
    assert raised.events + stuck.events == ("python/error", "python/time")


@pytest.mark.usefixtures("sum_of_two")
async def test_chance_in_code_comes_from_the_seed_and_forks_have_their_own():
    text = "<python>import random; random.random()</python>"
    environment = world()
    episodes = [await environment.open("train-0", seed) for seed in (1, 1, 2)]
    episodes.append(episodes[0].fork(3))
    heard = [(await episode.act(text)).messages[0].content for episode in episodes]
    assert heard[0] == heard[1]
    assert len(set(heard)) == 3


@pytest.mark.parametrize(
    ("output", "ending", "shown"),
    [
        ("42\n", Ending.OK, "42"),
        ("", Ending.OK, "[no output]"),
        ("", Ending.KILLED, "[stopped by the system]"),
        # 45 characters of which 40 may be shown: 20 at each end, 5 left out.
        ("a" * 20 + "bbbbb" + "c" * 20, Ending.OK,
         "a" * 20 + "\n[5 characters left out]\n" + "c" * 20),
        ("x" * 41, Ending.OUTPUT,
         "x" * 20 + "\n[1 characters left out]\n" + "x" * 20 + "\n[stopped: it printed too much]"),
    ],
)  # fmt: skip
def test_the_middle_of_a_long_output_is_cut_out(output, ending, shown):
    assert shown_of(Execution(output, ending, 0.1), 40) == shown


async def test_the_right_answer_of_every_data_set_is_taken():
    environment = MathPython(isolation="limits")
    assert environment.offers == {Offer.GOLD}
    for i in range(2 * len(environment.named)):
        for split in ("train", "test"):
            task = environment.task(split, i)
            episode = await environment.open(task, 0)
            assert (await episode.act(environment.gold(task))).reward == 1.0
            episode = await environment.open(task, 0)
            assert (await episode.act("<answer>1234567</answer>")).reward == 0.0


async def test_tasks_take_turns_among_data_sets():
    environment = world(datasets="chain_sum,simple_equations")
    questions = [environment._puzzle(f"test-{i}").question for i in range(4)]
    assert ["arithmetic" in question for question in questions] == [True, False, True, False]


async def test_many_episodes_at_once():
    environment = world()
    tasks = [environment.task("train", i) for i in range(6)]
    episodes = [await environment.open(task, 0) for task in tasks]
    code = "<python>sum(range(10))</python>"
    heard = await asyncio.gather(*(episode.act(code) for episode in episodes))
    assert {o.messages[0].content for o in heard} == {"<output>\n45\n</output>"}
    said = await asyncio.gather(
        *(
            episode.act(environment.gold(task))
            for episode, task in zip(episodes, tasks, strict=True)
        )
    )
    assert [o.reward for o in said] == [1.0] * 6


def test_bad_options_are_refused():
    for options, problem in (
        ({"turns": 0}, "turns: got 0"),
        ({"seconds": 0}, "seconds: got 0"),
        ({"output_characters": 1}, "output_characters: got 1"),
        ({"datasets": "chain_sums"}, "did you mean chain_sum"),
        ({"datasets": "rush_hour"}, "answers of rush_hour are neither numbers nor formulas"),
    ):
        with pytest.raises(ValueError, match=problem):
            world(**options)
    environment = world()
    assert environment_named("math_python") is MathPython
    assert MathPython(**dataclasses.asdict(environment)) == environment


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch):
    from retrograde.environments import extras

    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    with pytest.raises(ValueError, match=r"pip install 'retrograde\[math\]'"):
        world()


@pytest.fixture(scope="module", autouse=True)
def _judge():
    yield
    JUDGE.close()

"""The environment `bfcl`: cases, episodes, rewards."""

import importlib.util
import json

import pytest

from retrograde.data.offer import Offer
from retrograde.data.tree import End
from retrograde.environments.bfcl import case as cases
from retrograde.environments.bfcl.case import ADDED, CATEGORIES, STORIES, Case, split_of
from retrograde.environments.bfcl.environment import Bfcl
from retrograde.environments.bfcl.episode import DONE
from retrograde.environments.extras import MissingExtraError

from .plays import played, without_last_call

BASE, MISS = "test-4", "test-6"
"""Story 3, the second odd one, in the first and in the third of four categories."""
FIND = "[find(path='.', name='test')]"
COPY = (
    "[cd(folder='projects'), cd(folder='photography'), "
    "cp(source='test_image1.jpg', destination='backup_tests'), "
    "cp(source='test_document.txt', destination='backup_tests')]"
)


# Tasks -------------------------------------------------------------------------------------------


def test_every_task_is_one_telling_of_one_story_and_splits_share_no_story():
    told = {}
    for split in ("train", "test"):
        tasks = [Bfcl().task(split, i) for i in range(Bfcl().size(split))]
        told[split] = [(c.category, c.story) for c in map(Bfcl().case, tasks)]
        assert len(set(told[split])) == len(told[split]) == 400
        for category in CATEGORIES:
            assert sum(kind == category for kind, _ in told[split]) == 100
    train, test = ({story for _, story in told[split]} for split in ("train", "test"))
    assert not train & test
    assert len(train | test) == STORIES


def starts(of_split):
    return {
        json.dumps(Case.told(category, story).start, sort_keys=True)
        for category in CATEGORIES
        for story in range(STORIES)
        if of_split(story)
    }


def test_no_world_is_in_both_splits():
    assert not starts(lambda n: split_of(n) == "train") & starts(lambda n: split_of(n) == "test")
    # Odd and even alone would put the world of 100, 104 and 133 in both.
    assert starts(lambda n: n % 2 == 0) & starts(lambda n: n % 2 == 1)


def test_one_category_alone_has_a_hundred_tasks():
    environment = Bfcl(category="miss_func")
    assert environment.size("test") == 100
    assert [environment.case(f"test-{i}").story for i in range(3)] == [1, 3, 5]
    with pytest.raises(ValueError, match="bfcl has 100 test tasks: no test-100"):
        environment.task("test", 100)


@pytest.mark.parametrize("task", ["test-400", "test-x", "base_3"])
async def test_a_task_that_is_none_is_refused(task):
    with pytest.raises(ValueError, match=r"bfcl has (400 test tasks: no|no task)"):
        await Bfcl().open(task, 0)


async def test_without_the_package_the_command_is_named(monkeypatch):
    for remembered in (cases._rows, cases._truths, cases._documented):
        remembered.cache_clear()
    monkeypatch.setattr(cases, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install --no-deps 'bfcl-eval==2026\.3\.23'"):
        await Bfcl().open("test-0", 0)
    assert importlib.util.find_spec("bfcl_eval")


def test_options_are_checked():
    with pytest.raises(ValueError, match="answers: at least 1 is needed, got 0"):
        Bfcl(answers=0)


# What is shown -----------------------------------------------------------------------------------


async def test_functions_are_listed_in_the_text_or_left_to_the_template():
    text, _ = (await Bfcl(listing="text").open(BASE, 0)).opening()
    system, user = (await Bfcl(listing="template").open(BASE, 0)).opening()
    assert text.tools == ()
    assert text.content == "\n".join([f"{system.content}\n\nThe functions:", *system.tools])
    for calls, usual in (("hermes", system), ("pythonic", None)):
        first, _ = (await Bfcl(calls=calls).open(BASE, 0)).opening()
        assert (first.tools == ()) == (usual is None)
    # 18 functions of the file system, of which this story hides mv.
    names = [json.loads(tool)["function"]["name"] for tool in system.tools]
    assert len(names) == 17
    assert "mv" not in names
    assert system.lasting
    assert user.content.startswith("As part of my latest photography project")


async def test_short_documentation_keeps_names_types_and_what_is_required():
    told = {}
    for documentation in ("full", "short"):
        environment = Bfcl(listing="template", documentation=documentation)
        tools = (await environment.open(BASE, 0)).opening()[0].tools
        functions = [json.loads(tool)["function"] for tool in tools]
        told[documentation] = {function["name"]: function for function in functions}
    full, short = told["full"], told["short"]
    assert short["find"] == {
        "name": "find",
        "description": "Find any file or directories under specific path that contain name in its "
        "file name.",
        "parameters": {
            "type": "object",
            "properties": {
                "path": {"type": "string", "default": "."},
                "name": {"type": "string", "default": "None"},
            },
            "required": [],
        },
    }
    assert full.keys() == short.keys()
    assert "description" in full["find"]["parameters"]["properties"]["path"]


# Episodes ----------------------------------------------------------------------------------------


async def test_an_answer_without_calls_brings_the_next_message():
    environment = Bfcl(calls="pythonic", reward="progress")
    episode = await environment.open(BASE, 0)
    found = await episode.act(FIND)
    assert [message.role for message in found.messages] == ["tool"]
    assert found.messages[0].name == "find"
    assert (found.reward, found.score, found.end) == (0.0, 0.0, None)
    # Two messages of the user, so each is worth 1/2.
    second = await episode.act("They are in projects/photography.")
    assert second.messages[0].content.startswith("After identifying them")
    assert (second.reward, second.score, second.end) == (0.5, 0.5, None)
    copied = await episode.act(COPY)
    assert [message.role for message in copied.messages] == ["tool"] * 4
    last = await episode.act(DONE)
    assert (last.reward, last.score, last.end) == (0.5, 1.0, End.FINISHED)
    assert dict(last.measures) == {"progress": 1.0, "state": 1.0, "response": 1.0}


async def test_what_is_wrong_is_worth_nothing_and_the_rest_its_share():
    # Without the last cp the folder lacks a file: state and response of message 2 are wrong.
    answers = [FIND, DONE, COPY.rpartition(", cp")[0] + "]", DONE]
    for reward, expected in (("progress", 0.5), ("final", 0.0)):
        _, last, total = await played(Bfcl(calls="pythonic", reward=reward), BASE, answers)
        assert (total, last.score) == (expected, 0.5)
        assert dict(last.measures) == {"progress": 0.5, "state": 0.5, "response": 0.5}


async def test_state_and_response_are_told_apart():
    environment = Bfcl(calls="pythonic")
    # A folder too many is a wrong state for good; all that the right calls say is said.
    answers = ["[mkdir(dir_name='extra'), find(path='.', name='test')]", DONE, COPY, DONE]
    _, last, _ = await played(environment, BASE, answers)
    assert dict(last.measures) == {"progress": 0.0, "state": 0.0, "response": 1.0}
    # Nothing found changes nothing.
    _, last, _ = await played(environment, BASE, [DONE, COPY, DONE])
    assert dict(last.measures) == {"progress": 0.5, "state": 1.0, "response": 0.5}


async def test_what_was_called_too_early_counts_later_but_not_alone():
    environment = Bfcl(calls="pythonic", reward="progress")
    # All calls at the first message: the second finds everything done, but nothing is called
    # there, which BFCL counts as wrong; and the state at the first is not yet right.
    both = [f"{FIND[:-1]}, {COPY[1:]}", DONE, DONE]
    assert (await played(environment, BASE, both))[2] == 0.0
    # With any call at the second message it is right.
    looked = [both[0], DONE, "[pwd()]", DONE]
    assert (await played(environment, BASE, looked))[2] == 0.5


async def test_missing_functions_come_later_and_cannot_be_called_before():
    environment = Bfcl(
        calls="pythonic", listing="template", documentation="short", category="miss_func"
    )
    episode = await environment.open("test-1", 0)
    system, _ = episode.opening()
    assert not any('"name": "find"' in tool for tool in system.tools)
    early = await episode.act(FIND)
    assert early.messages[0].content == "Error during execution: there is no function 'find'"
    assert early.events == ("call/unknown",)
    later = await episode.act("I have no function for that.")
    *tools, words = later.messages[0].content.split("\n")
    assert [json.loads(tool)["function"]["name"] for tool in tools] == ["find", "ls"]
    assert words == ADDED
    assert (await episode.act(FIND)).events == ()


@pytest.mark.parametrize(
    ("rule", "nothing", "looks", "changes"),
    [("no_calls", 1, 0, 0), ("state", 1, 1, 0), ("free", 1, 1, 1)],
)
async def test_what_cannot_be_done_is_judged_by_the_rule(rule, nothing, looks, changes):
    environment = Bfcl(calls="pythonic", unanswerable=rule)
    for call, right in (("", nothing), ("[pwd()]", looks), ("[mkdir(dir_name='x')]", changes)):
        answers = ([call] if call else []) + [DONE]
        episode, _, _ = await played(environment, MISS, answers)
        assert episode.verdicts[0].right == bool(right)


async def test_malformed_calls_are_told_counted_and_not_made():
    episode = await Bfcl().open(BASE, 0)
    seen = await episode.act('<tool_call>{"name": "mkdir"}</tool_call>')
    assert seen.events == ("call/malformed",)
    assert seen.messages[0].role == "user"
    assert "arguments" in seen.messages[0].content
    assert (await episode.act("<think>[</think>")).messages[0].content.startswith("After")


async def test_too_many_answers_to_one_message_end_the_episode():
    episode, last, total = await played(
        Bfcl(calls="pythonic", reward="progress", answers=2), BASE, [FIND, DONE, FIND, FIND]
    )
    assert (last.end, last.messages, total, last.score) == (End.TRUNCATED, (), 0.5, 0.5)
    assert dict(last.measures) == {"progress": 0.5, "state": 0.5, "response": 0.5}
    with pytest.raises(RuntimeError, match="is over"):
        await episode.act(DONE)


@pytest.mark.parametrize("answers", [[FIND, DONE], [FIND, FIND]])
async def test_too_many_answers_end_the_episode(answers):
    _, last, _ = await played(Bfcl(calls="pythonic", turn_limit=2), BASE, answers)
    assert last.end == End.TRUNCATED


# Forks and teachers ------------------------------------------------------------------------------


async def test_a_fork_goes_its_own_way():
    environment = Bfcl(calls="pythonic")
    episode = await environment.open(BASE, 0)
    for answer in (FIND, DONE):
        await episode.act(answer)
    other = episode.fork(7)
    assert other.state_key() == episode.state_key()
    await other.act("[mkdir(dir_name='extra')]")
    assert other.state_key() != episode.state_key()
    await other.act(COPY)
    assert (await other.act(DONE)).score == 0.5
    await episode.act(COPY)
    assert (await episode.act(DONE)).score == 1.0


@pytest.mark.parametrize("category", CATEGORIES)
async def test_equal_actions_are_told_equal_things(category):
    environment = Bfcl(category=category)
    for i in range(0, 100, 9):
        task = f"test-{i}"
        one, two = [await environment.open(task, seed) for seed in (0, 1)]
        assert one.opening() == two.opening()
        for answer in environment.right_answers(task):
            fork = one.fork(3)
            seen = await one.act(answer)
            assert seen == await two.act(answer) == await fork.act(answer)
            assert one.state_key() == two.state_key() == fork.state_key()


async def test_the_teacher_is_right_unless_it_forgets():
    environment = Bfcl(calls="pythonic", reward="progress")
    scores = set()
    for seed in range(12):
        episode = await environment.open(BASE, 0)
        seen = await episode.act(episode.demonstrate(seed))
        while seen.end is None:
            seen = await episode.act(episode.demonstrate(seed))
        scores.add(seen.score)
    assert scores == {0.5, 1.0}


def test_what_is_offered():
    assert Bfcl().offers == {Offer.SCORES}
    assert Bfcl(reward="progress").offers == {Offer.SCORES, Offer.TURN_REWARDS}
    with pytest.raises(LookupError, match="no single answer"):
        Bfcl().gold(BASE)


# The whole benchmark -----------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["hermes", pytest.param("pythonic", marks=pytest.mark.slow)])
async def test_the_right_calls_score_1_on_all_test_tasks_and_less_without_the_last(form):
    environment = Bfcl(calls=form, reward="progress")
    for i in range(environment.size("test")):
        task = environment.task("test", i)
        answers = environment.right_answers(task)
        _, last, total = await played(environment, task, answers)
        assert (last.end, last.score) == (End.FINISHED, 1.0), task
        assert total >= environment.success_return
        _, last, total = await played(environment, task, without_last_call(answers, form))
        assert last.score < 1, task
        assert total < environment.success_return

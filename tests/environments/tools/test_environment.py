"""The environment of one's own tools: episodes, rewards, splits, forks, options."""

import asyncio
import dataclasses
import json
import random

import pytest
from tests.environments.tools.worlds import TASKS, add, adding, call, said, texts

from retrograde.data.message import Message
from retrograde.data.offer import Offer
from retrograde.data.tree import End
from retrograde.environments.calls.call import Call
from retrograde.environments.description import described
from retrograde.environments.protocol import Environment, Forking
from retrograde.environments.tools.environment import USUAL_SYSTEM, ToolEnvironment
from retrograde.environments.tools.episode import MOST_CALLS, SKIPPED
from retrograde.environments.tools.options import Tools
from retrograde.environments.tools.reward import Record, matches


def slow_add(a: int) -> int:
    import time

    time.sleep(30)
    return a


def broken() -> None:
    raise OSError("the disk is full")


async def test_several_calls_get_a_message_each_and_an_answer_ends_it():
    environment: Environment = adding()
    row = environment.row("train-0").columns
    calls = call("add", a=1) + call("add", a=1, b=5)
    first, last = await said(environment, f"Let me see. {calls}", f"{row['answer']}.")
    assert first.messages == (Message("tool", "2", name="add"), Message("tool", "6", name="add"))
    assert (first.end, first.reward, first.events) == (None, 0.0, ())
    assert (last.end, last.reward, last.messages) == (End.FINISHED, 1.0, ())
    assert last.measures == (("calls", 2.0),)
    (wrong,) = await said(environment, "no idea")
    assert (wrong.end, wrong.reward) == (End.FINISHED, 0.0)


async def test_what_goes_wrong_is_told_and_counted():
    environment = adding(functions=[add, broken])
    (heard,) = await said(
        environment,
        call("add")
        + call("sub", a=1)
        + "<tool_call>{</tool_call>"
        + call("broken")
        + call("add", a=2),
    )
    assert heard.events == (
        "call/bad_arguments",
        "call/unknown_tool",
        "call/malformed",
        "tool/error",
    )
    missing, unknown, malformed, error, fine = texts(heard)
    assert missing == "Error: add: a: Field required"
    assert unknown == "Error: there is no tool 'sub'; there are: add, broken"
    assert malformed.startswith("Error: the call is not valid JSON")
    assert error == "Error: OSError: the disk is full"
    assert fine == "3"
    assert [message.name for message in heard.messages] == ["add", None, None, "broken", "add"]


async def test_a_call_in_a_thought_is_not_run():
    (heard,) = await said(adding(), f"<think>{call('add', a=1)}</think>3")
    assert (heard.end, heard.measures) == (End.FINISHED, (("calls", 0.0),))
    opened = adding(thought_opened=True)
    (heard,) = await said(opened, f"{call('add', a=1)}")
    assert heard.end is End.FINISHED
    (heard,) = await said(opened, f"hm</think>{call('add', a=1)}")
    assert texts(heard) == ["2"]


async def test_a_call_that_takes_too_long_ends_the_calls_of_its_answer():
    environment = adding(functions=[add, slow_add], tool_seconds=0.05)
    (heard,) = await said(environment, call("slow_add", a=1) + call("add", a=1))
    assert texts(heard) == ["Error: no result within 0.05 seconds", SKIPPED]
    assert heard.events == ("tool/timeout",)


async def test_more_calls_than_anybody_needs_are_not_run():
    (heard,) = await said(adding(), call("add", a=1) * (MOST_CALLS + 2))
    assert texts(heard)[:MOST_CALLS] == ["2"] * MOST_CALLS
    assert heard.events == ("call/too_many",) * 2


async def test_an_episode_ends_when_its_turns_are_used():
    first, second = await said(adding(max_turns=2), call("add", a=1), call("add", a=2))
    assert first.end is None
    assert (second.end, second.reward, texts(second)) == (End.TRUNCATED, 0.0, ["3"])
    episode = await adding(max_turns=1).open("train-0", 0)
    await episode.act("3")
    with pytest.raises(RuntimeError, match="the episode of 'train-0' is over"):
        await episode.act("3")


async def test_the_opening_names_the_tools_as_the_format_wants_it():
    opening = (await adding().open("train-0", 0)).opening()
    system, user = opening
    assert (system.role, system.content) == ("system", USUAL_SYSTEM)
    assert [json.loads(tool)["function"]["name"] for tool in system.tools] == ["add"]
    assert user.role == "user"
    assert all(message.lasting for message in opening)
    tasks = [
        {
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": str(i)},
            ],
            "answer": 1,
        }
        for i in range(3)
    ]
    environment = adding(tasks=tasks, calls="react", system="Use tools.")
    system, _ = (await environment.open("train-0", 0)).opening()
    assert system.tools == ()
    assert system.content.startswith(
        "Be brief.\n\nUse tools.\n\nYou have these tools:\n"
        "- add(a: integer, b: integer): Add two numbers.\n\nTo call"
    )
    assert (await adding(listed_in="text").open("train-0", 0)).opening()[0].tools == ()


async def test_react_tags_call_and_answer():
    environment = adding(calls="react")
    row = environment.row("train-0").columns
    heard, lost, last = await said(
        environment, "<add> 4 </add>", "it is 5", f"<answer> \\boxed{{{row['answer']}}} </answer>"
    )
    assert heard.messages == (Message("user", "5"),)
    assert lost.events == ("call/malformed",)
    assert (last.end, last.reward) == (End.FINISHED, 1.0)


def test_an_answer_matches_as_number_or_as_words():
    assert matches("1,200", 1200)
    assert matches(r"It is \boxed{1200.0}.", "1200")
    assert matches("  The  Hall. ", "the hall")
    assert matches("b", ["a", "b"])
    assert not matches("12", 1200)
    assert not matches("the hall or the shed", "the hall")
    assert not matches("nan", "inf")
    assert not matches("", "x")


async def test_a_reward_of_ones_own_judges_the_record():
    seen: list[Record] = []

    async def reward(record: Record) -> float:
        seen.append(record)
        return 0.25 * len(record.calls)

    environment = adding(reward=reward)
    *_, last = await said(environment, call("add", a=1) + call("nope"), "done")
    assert last.reward == 0.25
    (record,) = seen
    assert record.said == "done"
    assert record.answers == (call("add", a=1) + call("nope"), "done")
    assert [(made.name, made.arguments, made.result) for made in record.calls] == [
        ("add", {"a": 1}, "2")
    ]
    assert record.events == ("call/unknown_tool",)
    *_, cut = await said(
        adding(reward=lambda record: record.said is None, max_turns=1), call("add", a=1)
    )
    assert (cut.end, cut.reward) == (End.TRUNCATED, 1.0)


@pytest.mark.parametrize(
    ("reward", "error"),
    [
        (lambda record: float("nan"), "a reward is a finite number, got nan"),
        (lambda record: None, "a reward is a finite number, got None"),
        (lambda record: 1 / 0, "division by zero"),
    ],
)
async def test_a_reward_that_is_none_costs_the_rollout(reward, error):
    with pytest.raises((ValueError, ZeroDivisionError), match=error):
        await said(adding(reward=reward), "3")


def test_the_right_answer_is_offered_where_every_task_has_one():
    assert adding().offers == {Offer.GOLD}
    environment = adding(calls="react")
    row = environment.row("test-0").columns
    assert environment.gold("test-0") == f"<answer> \\boxed{{{row['answer']}}} </answer>"
    bare = [{"prompt": str(i)} for i in range(5)]
    assert adding(tasks=bare, reward=lambda record: 0.0).offers == frozenset()
    verl = [{"prompt": str(i), "reward_model": {"ground_truth": i}} for i in range(5)]
    environment = adding(tasks=verl)
    assert environment.gold("train-0") == environment.row("train-0").columns["prompt"]


def test_splits_are_apart_and_of_some_size():
    environment = adding(test_share=0.3)
    assert environment.size("train") + environment.size("test") == 20
    rows = [environment.row(environment.task("train", i)) for i in range(environment.size("train"))]
    held_out = [
        environment.row(environment.task("test", i)) for i in range(environment.size("test"))
    ]
    assert not {row.identity for row in rows} & {row.identity for row in held_out}
    for task in ("train-99", "test-99"):
        with pytest.raises(ValueError, match=f"tools has .* tasks: no {task}"):
            environment.row(task)
    with pytest.raises(ValueError, match="no train-99"):
        environment.task("train", 99)
    apart = adding(tasks=TASKS[:5], test=TASKS[5:])
    assert (apart.size("train"), apart.size("test")) == (5, 15)
    with pytest.raises(ValueError, match="is held out and is also trained on"):
        adding(tasks=TASKS, test=TASKS[:1])


def test_what_could_not_go_well_is_refused_before_any_work():
    for options, problem in (
        ({"functions": ()}, "at least one tool is needed"),
        ({"functions": [add, add]}, "each needs a name of its own; twice: add"),
        ({"calls": "herms"}, "did you mean hermes"),
        ({"tasks": [{"prompt": str(i)} for i in range(4)]}, "nothing says what its end is worth"),
        ({"max_turns": 0}, "max_turns: more than 0 is needed, got 0"),
        ({"tool_seconds": float("nan")}, "tool_seconds: more than 0"),
        ({"test_share": 1.0}, "test_share: 0 or more and below 1"),
        ({"listed_in": "x"}, "listed_in: needed is template or text"),
        ({"functions": "nowhere.py:f"}, "functions 'nowhere.py:f': there is no file nowhere.py"),
        ({"reward": "nowhere:f"}, "reward 'nowhere:f': known are FILE.py:NAME"),
    ):
        with pytest.raises(ValueError, match=problem):
            adding(**options)


def test_only_what_is_deterministic_is_replayed():
    assert adding().forking is Forking.NONE
    assert adding(deterministic=True).forking is Forking.REPLAY


def test_it_is_described_by_what_it_holds(tmp_path):
    def minus(a: int) -> int:
        """Take one away."""
        return a - 1

    one, other = adding(), adding()
    assert one.described() == other.described() == described(one)
    json.dumps(one.described())
    changed = [
        adding(functions=[add, minus]),
        adding(tasks=TASKS[:-1]),
        adding(max_turns=3),
        adding(reward=lambda record: 0.0),
        adding(words=("x",)),
    ]
    every = [json.dumps(environment.described()) for environment in (one, *changed)]
    assert len(set(every)) == len(every)


def test_the_command_line_names_files_and_names_in_them(tmp_path):
    (tmp_path / "own.py").write_text(
        "state = []\n"
        "def add(a: int) -> int:\n    'Add.'\n    state.append(a)\n    return a + 1\n"
        "def sub(a: int) -> int:\n    'Subtract.'\n    return a - 1\n"
        "def reward(record):\n    return float(len(state))\n"
        "def teacher(record, chance):\n    return 'x'\n"
    )
    (tmp_path / "tasks.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in TASKS))
    own = f"{tmp_path}/own.py"
    environment = Tools(
        tasks=tmp_path / "tasks.jsonl",
        functions=f"{own}:add,sub",
        reward=f"{own}:reward",
        teacher=f"{own}:teacher",
    )
    # What is taken from one file shares its state: the reward sees what the tool did.
    *_, last = asyncio.run(said(environment, call("add", a=1) + call("add", a=1), "done"))
    assert last.reward == 2.0
    assert environment.described()["functions"] == f"{own}:add,sub"
    assert environment.described()["tasks"] == str(tmp_path / "tasks.jsonl")
    assert list(environment.toolset.kit(None, None).tools) == ["add", "sub"]
    options = {entry.name for entry in dataclasses.fields(Tools)}
    assert options == {entry.name for entry in dataclasses.fields(ToolEnvironment)}


def test_a_teacher_says_calls_and_answers_in_the_format_and_its_words_are_known():
    def teacher(record: Record, chance: random.Random):
        if record.calls:
            return record.calls[-1].result
        return Call("add", {"a": int(record.row["prompt"].split()[2])})

    environment = adding(calls="react", teacher=teacher, words=("extra",))

    async def played() -> list[str]:
        episode = await environment.open("train-0", 0)
        spoken = [episode.demonstrate(0)]
        await episode.act(spoken[0])
        return [*spoken, episode.demonstrate(0)]

    number = environment.row("train-0").columns["answer"] - 1
    assert asyncio.run(played()) == [
        f"<add> {number} </add>", f"<answer> \\boxed{{{number + 1}}} </answer>"
    ]  # fmt: skip
    vocabulary = environment.vocabulary
    assert vocabulary is not None
    assert {"What", "is", "+", "?", "extra", "0", "20"} <= set(vocabulary.words)
    assert {"<add>", "</add>", "<answer>"} <= set(vocabulary.phrases)
    assert any(phrase.startswith("You have these tools") for phrase in vocabulary.phrases)
    assert adding().vocabulary is None
    with pytest.raises(
        ValueError, match="the embedded policy can say pythonic or react, got hermes"
    ):
        _ = adding(teacher=teacher).vocabulary


async def test_without_a_teacher_nobody_demonstrates():
    episode = await adding().open("train-0", 0)
    with pytest.raises(LookupError, match="it was given none"):
        episode.demonstrate(0)

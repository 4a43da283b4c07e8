"""Plays environments of the library verifiers; run by the Python that has it."""

import asyncio
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from retrograde.environments.protocol import Environment, Forking
from retrograde.environments.verifiers.environment import OtherKindError, Verifiers
from retrograde.rollouts.line import Line

OWN = Path(__file__).with_name("own_environments.py")


def call(name: str, **arguments) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


async def said(environment: Environment, *answers: str, task: str = "train-0") -> list:
    episode = await environment.open(task, 0)
    try:
        return [await episode.act(answer) for answer in answers]
    finally:
        await episode.close()
        left = [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
        assert not left, left


async def tools() -> None:
    environment = Verifiers(environment=f"{OWN}:with_tools", arguments='{"max_turns": 4}')
    assert environment.turn_limit == 4
    assert environment.size("train") + environment.size("test") == 40
    assert 0 < environment.size("test") < 12
    episode = await environment.open("train-0", 0)
    opening = episode.opening()
    await episode.close()
    assert [m.role for m in opening] == ["system", "user"]
    assert opening[0].content == "Use the tools."
    assert [json.loads(tool)["function"]["name"] for tool in opening[0].tools] == ["add", "boom"]
    number = int(opening[1].content.split()[2])
    heard, wrong, last = await said(
        environment,
        call("add", a=number, b=1) + call("boom"),
        call("add", a=1) + call("add", a=1, b=1) + call("nope"),
        f"<think>{call('boom')}</think>{number + 1}",
    )
    assert [(m.role, m.content, m.name) for m in heard.messages] == [
        ("tool", str(number + 1), "add"),
        ("tool", "broken", "boom"),
    ]
    assert wrong.events == ("call/bad_arguments", "call/unknown_tool")
    assert "not run" in wrong.messages[1].content
    # The library's rubric judges the whole answer, the thought included, so this one is wrong.
    assert (str(last.end), last.reward) == ("finished", 0.0)
    *_, last = await said(environment, f"{number + 1}")
    assert (str(last.end), last.reward) == ("finished", 1.0)
    assert dict(last.measures)["length"] == 1.0
    # Malformed answers are ours alone to count: the library never hears of them.
    *_, cut = await said(environment, *["<tool_call>"] * 4)
    assert (str(cut.end), cut.reward) == ("truncated", 0.0)


async def turns() -> None:
    environment = Verifiers(environment=f"{OWN}:guessing", deterministic=True)
    assert (environment.size("train"), environment.size("test")) == (30, 10)
    assert environment.forking is Forking.REPLAY
    first, last = await said(environment, "0", "1")
    assert ([m.content for m in first.messages], first.end) == (["no"], None)
    assert (str(last.end), last.reward) == ("finished", 1.0)
    *_, cut = await said(environment, "7", "8", "9")
    assert (str(cut.end), cut.reward) == ("truncated", 0.0)
    line = await Line.open(environment, "train-0", 0)
    await line.act("0")
    twin = await line.fork(1)
    assert (await twin.act("1")).reward == 1.0
    await line.close()
    await twin.close()
    own = environment.world.note.__func__.__globals__["CLEANED"]
    assert len(own) == 4, own  # each rollout once, also the one that was given up


@contextmanager
def raises(kind: type[Exception], words: str) -> Iterator[None]:
    """There is no pytest here."""
    try:
        yield
    except kind as error:
        told = str(error)
    else:
        told = "nothing was raised"
    assert words in told, told


async def failures() -> None:
    broken = Verifiers(environment=f"{OWN}:guessing", arguments='{"broken": true}')
    with raises(RuntimeError, "the environment failed: InfraError('the sandbox is gone')"):
        await said(broken, "0")
    with raises(ValueError, "there is no 'nothing'"):
        Verifiers(environment=f"{OWN}:nothing")
    with raises(OtherKindError, "got a int"):
        Verifiers(environment=f"{OWN}:add", arguments='{"a": 1, "b": 2}')


if __name__ == "__main__":
    for part in (tools, turns, failures):
        asyncio.run(part())
        sys.stdout.write(f"{part.__name__}\n")

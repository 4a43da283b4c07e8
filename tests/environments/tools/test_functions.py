"""Python functions as tools: schemas, arguments, results, limits."""

import asyncio
import functools
import json
import subprocess
import sys
import threading
from dataclasses import dataclass
from typing import Annotated, Literal

import pytest
from pydantic import Field
from tests.environments.tools.worlds import add

from retrograde.environments.calls.call import SOLE, Call, Malformed
from retrograde.environments.tools.function import tool_of
from retrograde.environments.tools.limit import ToolTimeoutError, aside, within
from retrograde.environments.tools.tool import Result, checked


@dataclass
class Point:
    """A place."""

    x: int
    y: float = 0.5


def many(
    kind: Literal["a", "b"],
    points: list[Point],
    json: Annotated[int, Field(ge=0)] = 3,
    title: str | None = None,
    check: object = object(),
) -> dict:
    return {"kind": kind, "points": points, "json": json, "title": title}


class Counter:
    def __init__(self) -> None:
        self.count = 0

    def more(self, by: int) -> int:
        """Count on."""
        self.count += by
        return self.count

    async def later(self, word: str) -> str:
        await asyncio.sleep(0)
        return word * 2


def ran(function, seconds=5.0, **arguments) -> Result:
    return asyncio.run(tool_of(function, seconds).run(arguments))


def test_signature_and_docstring_are_the_schema():
    tool = tool_of(add, 1.0)
    assert json.loads(tool.schema) == {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Add two numbers.",
            "parameters": {
                "type": "object",
                "properties": {
                    "a": {"type": "integer", "description": "the first of them."},
                    "b": {"type": "integer", "description": "the second.", "default": 1},
                },
                "required": ["a"],
                "additionalProperties": False,
            },
        },
    }
    assert tool.line == "add(a: integer, b: integer): Add two numbers."
    assert tool_of(Counter().more, 1.0).parameters["required"] == ["by"]


def test_arguments_become_what_the_types_say():
    result = ran(many, kind="a", points=[{"x": 1}, {"x": 2, "y": 3}])
    assert json.loads(result.text) == {
        "kind": "a",
        "points": [{"x": 1, "y": 0.5}, {"x": 2, "y": 3.0}],
        "json": 3,
        "title": None,
    }


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "many: kind: Field required; points: Field required"),
        ({"kind": "c", "points": []}, "many: kind: Input should be 'a' or 'b'"),
        (
            {"kind": "a", "points": [{"x": "1"}]},
            "many: points.0.x: Input should be a valid integer",
        ),
        ({"kind": "a", "points": [], "json": True}, "many: json: Input should be a valid integer"),
        ({"kind": "a", "points": [], "json": -1}, "many: json: Input should be greater than or"),
        ({"kind": "a", "points": [], "more": 1}, "many: more: Extra inputs are not permitted"),
    ],
)
def test_wrong_arguments_are_named_and_never_run(arguments, problem):
    tool = tool_of(many, 1.0)
    wrong = checked(Call("many", arguments), {"many": tool})
    assert isinstance(wrong, Malformed)
    assert (wrong.event, wrong.name) == ("call/bad_arguments", "many")
    assert wrong.why.startswith(problem)


def test_an_unknown_tool_is_named_with_those_there_are():
    wrong = checked(Call("sub", {}), {"add": tool_of(add, 1.0)})
    assert wrong == Malformed("there is no tool 'sub'; there are: add", "call/unknown_tool", "sub")


def test_arguments_in_plain_text_get_the_types_of_the_schema():
    def take(*, n: int, s: str, f: float, b: bool, o: int | None, w: str | None, p: Point) -> None:
        pass

    written = {"n": "3", "s": "3", "f": "3", "b": "True", "o": "null", "w": "null"}
    call = checked(
        Call("take", {**written, "p": '{"x": 1}'}, verbatim=True), {"take": tool_of(take, 1.0)}
    )
    assert call == Call(
        "take",
        {"n": 3, "s": "3", "f": 3, "b": True, "o": None, "w": None, "p": {"x": 1}},
    )
    wrong = checked(Call("add", {"a": "three"}, verbatim=True), {"add": tool_of(add, 1.0)})
    assert isinstance(wrong, Malformed)


def test_an_argument_without_a_name_is_the_only_one_that_is_needed():
    tools = {"add": tool_of(add, 1.0), "more": tool_of(Counter().more, 1.0)}
    assert checked(Call("add", {SOLE: "3"}, verbatim=True), tools) == Call("add", {"a": 3})
    assert checked(Call("more", {SOLE: "3"}, verbatim=True), tools) == Call("more", {"by": 3})

    def pair(a: int, b: int) -> int:
        return a + b

    wrong = checked(Call("pair", {SOLE: "3"}, verbatim=True), {"pair": tool_of(pair, 1.0)})
    assert isinstance(wrong, Malformed)


def test_results_are_text_or_json():
    assert ran(lambda_named("é\ud800")).text == "é?"
    assert ran(lambda_named(None)).text == "null"
    assert ran(lambda_named({"ä": [1.5, Point(1)]})).text == '{"ä": [1.5, {"x": 1, "y": 0.5}]}'
    counter = Counter()
    assert [ran(counter.more, by=2).text, ran(counter.more, by=2).text] == ["2", "4"]
    assert ran(counter.later, word="a").text == "aa"


def lambda_named(value):
    def give() -> object:
        return value

    return give


def raising(error):
    def give() -> None:
        raise error

    async def give_later() -> None:
        raise error

    return give, give_later


@pytest.mark.parametrize("error", [KeyError("x"), SystemExit(3), TimeoutError("its own")])
def test_whatever_a_tool_raises_is_told(error):
    for function in raising(error):
        result = ran(function)
        assert result == Result(f"Error: {type(error).__name__}: {error}", "tool/error")


def test_a_tool_that_pretends_to_be_cancelled_stops_nothing():
    for error in (asyncio.CancelledError(), KeyboardInterrupt()):
        assert ran(raising(error)[0]) == Result(
            f"Error: RuntimeError: {type(error).__name__}()", "tool/error"
        )


def test_a_tool_that_takes_too_long_is_left_behind():
    released = threading.Event()

    def stuck() -> str:
        released.wait(30)
        return "late"

    async def stuck_later() -> None:
        await asyncio.sleep(30)

    for function in (stuck, stuck_later):
        result = ran(function, 0.05)
        assert result == Result("Error: no result within 0.05 seconds", "tool/timeout")
    released.set()


def test_a_stuck_tool_does_not_keep_the_program_from_ending():
    code = (
        "import asyncio, time\n"
        "from retrograde.environments.tools.limit import within\n"
        "async def main():\n"
        "    try:\n"
        "        await within(0.05, lambda: time.sleep(600))\n"
        "    except TimeoutError:\n"
        "        print('left')\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "left\n"), done.stderr


async def test_many_stuck_tools_stop_nobody():
    # `asyncio.to_thread` has fewer threads than this, and the last call would wait for the first.
    released = threading.Event()
    stuck = [within(0.5, lambda: released.wait(30)) for _ in range(64)]
    outcomes = await asyncio.gather(*stuck, within(30, lambda: 3), return_exceptions=True)
    released.set()
    assert outcomes[-1] == 3
    assert all(isinstance(outcome, ToolTimeoutError) for outcome in outcomes[:-1])


async def test_a_call_that_is_cancelled_is_not_an_error_of_the_tool():
    released = threading.Event()
    task = asyncio.create_task(tool_of(lambda_named(0), 30).run({}))
    waiting = asyncio.create_task(within(30, lambda: released.wait(30)))
    await task
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    released.set()


async def failing() -> float:
    return 1 / 0


def test_work_aside_runs_inside_and_outside_a_loop():
    async def inner() -> int:
        return 3

    async def outer() -> int:
        return aside(inner())

    assert aside(inner()) == asyncio.run(outer()) == 3
    with pytest.raises(ZeroDivisionError):
        aside(failing())


def test_a_function_that_cannot_be_told_is_refused():
    def untyped(x) -> None:
        pass

    def starred(*words: str) -> None:
        pass

    def unknown(x: "Nowhere") -> None:  # noqa: F821
        pass

    def strange(x: threading.Event) -> None:
        pass

    for function, problem in {
        untyped: "tool untyped: x: a type is needed",
        starred: r"tool starred: \*words: str: it cannot be given by name",
        unknown: "tool unknown: a type in its signature is not known",
        strange: "tool strange: a parameter's type has no schema",
        (lambda: 1): "a tool needs the name of a function",
        functools.partial(add, 1): "a tool needs the name of a function",
    }.items():
        with pytest.raises(ValueError, match=problem):
            tool_of(function, 1.0)


def test_a_blocking_tool_blocks_nobody_else():
    async def both() -> bool:
        start = asyncio.Event()

        async def watch() -> bool:
            await start.wait()
            return True

        watching = asyncio.create_task(watch())
        loop = asyncio.get_running_loop()
        # The tool only ends after the loop has gone on: in the loop it would wait for ever.
        done = threading.Event()

        def tool() -> bool:
            loop.call_soon_threadsafe(start.set)
            return done.wait(30)

        waiting = asyncio.create_task(within(30, tool))
        await watching
        done.set()
        return await waiting

    assert asyncio.run(both()) is True

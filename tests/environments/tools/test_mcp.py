"""MCP servers as tools, tested against a real server that does all that servers do."""

import asyncio
import dataclasses
import functools
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.environments.tools.worlds import ODD_SERVER, add, adding, call, said, texts

from retrograde.data.tree import End
from retrograde.environments.protocol import Forking
from retrograde.environments.tools.server import Pool, Server, ServerDiedError, ServerError

WORDS = shlex.split(ODD_SERVER)


@functools.cache  # each asks a server what it offers
def serving(**options):
    return adding(**({"functions": (), "mcp": ODD_SERVER, "tool_seconds": 1.0} | options))


def servers() -> list[int]:
    """Processes of the odd server that live and belong to this one."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_text().split("\0")
                parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            except OSError:
                continue
            if words[: len(WORDS)] == WORDS and int(parent) == os.getpid():
                found.append(int(folder.name))
    return found


@pytest.fixture(autouse=True)
def no_server_is_left():
    assert servers() == []
    yield
    deadline = time.monotonic() + 20
    while servers() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert servers() == []


async def test_everything_a_server_says_becomes_text():
    environment = serving()
    names = ["add", "table", "parts", "huge", "boom", "hang", "die"]
    assert list(environment.toolset.kit(None, None).tools) == names
    row = environment.row("train-0").columns
    heard, wrong, stuck, last = await said(
        environment,
        call("add", a=1, b=2) + call("table") + call("parts") + call("huge") + call("boom"),
        call("add", a=1) + call("add", a=1, b="x") + call("nope"),
        call("hang") + call("add", a=1, b=2),
        str(row["answer"]),
    )
    three, table, parts, huge, boom = texts(heard)
    assert (three, table.replace(" ", "").replace("\n", "")) == ("3", '{"rows":[1,2]}')
    assert parts == "seen:\n[image left out: image/png]\nin a file"
    assert len(huge) == 2_000_000
    assert boom.startswith("Error")
    assert heard.events == ("tool/part_left_out", "tool/error")
    assert wrong.events == ("call/bad_arguments", "call/bad_arguments", "call/unknown_tool")
    assert texts(wrong)[0] == "Error: add: 'b' is a required property"
    assert texts(wrong)[1] == "Error: add: b: 'x' is not of type 'integer'"
    assert texts(stuck)[0] == "Error: no result within 1 seconds"
    assert stuck.events == ("tool/timeout",)
    assert (last.end, last.reward) == (End.FINISHED, 1.0)


async def test_a_server_that_dies_costs_the_rollout_and_says_its_last_words():
    with pytest.raises(ServerDiedError, match=r"it is gone.*it said:\ngoodbye") as raised:
        await said(serving(), call("die"))
    assert "odd_server.py" in str(raised.value)


@pytest.mark.slow
async def test_a_shared_server_that_died_is_followed_by_another():
    environment = serving(mcp_shared=True)
    with pytest.raises(ServerDiedError):
        await said(environment, call("die"))
    (heard,) = await said(environment, call("add", a=1, b=2))
    assert texts(heard) == ["3"]


@pytest.mark.slow
async def test_a_server_that_is_killed_while_it_works_is_no_hang():
    episode = await serving(tool_seconds=60.0).open("train-0", 0)
    acting = asyncio.create_task(episode.act(call("hang")))
    (process,) = servers()
    await asyncio.sleep(0.2)
    os.kill(process, signal.SIGKILL)
    with pytest.raises(ServerDiedError):
        await acting
    await episode.close()


@pytest.mark.slow
def test_a_shared_server_ends_with_the_event_loop():
    environment = serving(mcp_shared=True)

    async def two_episodes() -> list[int]:
        await said(environment, "1")
        one, other = await asyncio.gather(
            environment.open("train-0", 0), environment.open("train-1", 0)
        )
        alive = servers()
        await asyncio.gather(one.close(), other.close())
        assert servers() == alive
        return alive

    assert len(asyncio.run(two_episodes())) == 1
    assert servers() == []
    assert len(asyncio.run(two_episodes())) == 1


async def test_an_episode_that_is_given_up_while_it_opens_leaves_no_server():
    environment = serving()
    opening = asyncio.create_task(environment.open("train-0", 0))
    while not servers():  # noqa: ASYNC110 - another process sets no event
        await asyncio.sleep(0.01)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert servers() == []


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ("no-such-command --x", "'no-such-command --x': .*No such file"),
        (
            shlex.join([sys.executable, "-c", "import sys; sys.exit('no key is set')"]),
            "(?s)Connection closed; it said:\nno key is set",
        ),
        ("cat", "MCP server 'cat': "),
        ("sleep 60", "MCP server 'sleep 60': no answer within 0.5 seconds"),
        ("http://127.0.0.1:9/mcp", "All connection attempts failed"),
        ("'", "cannot be read as a command"),
    ],
)
def test_a_server_that_does_not_start_is_named_before_any_work(place, problem):
    with pytest.raises(ServerError, match=problem):
        serving(mcp=place, mcp_seconds=0.5 if place.startswith("sleep") else 20.0)


@pytest.mark.slow
def test_no_server_is_started_for_each_demonstration():
    environment = serving(calls="react", teacher=lambda record, chance: "1")
    with pytest.raises(ValueError, match="mcp_shared: the embedded policy is taught by thousands"):
        _ = environment.vocabulary


@pytest.mark.slow
def test_servers_are_replayed_only_if_their_tools_are_deterministic():
    assert serving().forking is Forking.NONE
    toolset = dataclasses.replace(serving().toolset, deterministic=True)
    assert toolset.forking is Forking.REPLAY
    toolset = dataclasses.replace(toolset, functions=[add])
    with pytest.raises(ValueError, match="twice: add"):
        toolset.check([])


@pytest.mark.slow
async def test_only_so_many_servers_start_at_once(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    starting, most = 0, 0
    real = Server.started.__func__

    async def counted(cls, place: str, seconds: float) -> Server:
        nonlocal starting, most
        starting += 1
        most = max(most, starting)
        server = await real(cls, place, seconds)
        starting -= 1
        return server

    monkeypatch.setattr(Server, "started", classmethod(counted))
    pool = Pool(ODD_SERVER, shared=False, seconds=60.0)
    both = await asyncio.gather(pool.lease(), pool.lease())
    assert most == 1
    assert len(servers()) == 2
    await asyncio.gather(*(pool.give_back(server) for server in both))


@pytest.mark.slow
async def test_a_server_at_an_address_is_called_and_may_go_away():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([*WORDS, str(port)], stderr=subprocess.DEVNULL)  # noqa: ASYNC220
    try:
        for _ in range(400):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            await asyncio.sleep(0.05)
        environment = serving(mcp=f"http://127.0.0.1:{port}/mcp")
        heard, stuck = await said(environment, call("add", a=1, b=2) + call("boom"), call("hang"))
        assert (texts(heard)[0], heard.events) == ("3", ("tool/error",))
        assert stuck.events == ("tool/timeout",)
        episode = await environment.open("train-0", 0)
        process.kill()
        process.wait()
        with pytest.raises(ServerDiedError):
            await episode.act(call("add", a=1, b=2))
        await episode.close()
    finally:
        process.kill()
        process.wait()

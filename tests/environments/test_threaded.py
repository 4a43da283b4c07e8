"""An environment that blocks, in threads."""

import asyncio
import contextvars
import dataclasses
import subprocess
import sys
import threading

import pytest

from retrograde.environments.hop import Hop
from retrograde.environments.market import Market
from retrograde.environments.protocol import Columned
from retrograde.environments.threaded import Threaded, in_thread
from retrograde.rewards.record import Known

WHERE = contextvars.ContextVar("WHERE", default="nowhere")


async def test_a_call_runs_in_a_thread_of_its_own_with_what_is_known_here():
    WHERE.set("here")

    async def call():
        await asyncio.sleep(0)
        return threading.current_thread(), WHERE.get()

    (one, where), (other, _) = await asyncio.gather(in_thread(call), in_thread(call))
    assert where == "here"
    assert len({one, other, threading.current_thread()}) == 3
    assert one.daemon


async def test_calls_that_block_wait_side_by_side():
    together = threading.Barrier(4, timeout=30)

    async def call():
        return together.wait()  # passes when all four are in it

    assert sorted(await asyncio.gather(*(in_thread(call) for _ in range(4)))) == [0, 1, 2, 3]


@pytest.mark.parametrize("error", [KeyError("x"), SystemExit(3), asyncio.CancelledError()])
async def test_what_is_raised_there_is_raised_here(error):
    async def call():
        raise error

    expected = RuntimeError if isinstance(error, SystemExit) else type(error)
    with pytest.raises(expected):
        await in_thread(call)


async def test_a_call_that_is_given_up_is_left_behind():
    freed, done = threading.Event(), threading.Event()

    async def call():
        freed.wait(30)
        done.set()

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(in_thread(call), 0.05)
    freed.set()
    assert done.wait(30)


def test_a_thread_that_hangs_does_not_keep_the_program_alive():
    code = (
        "import asyncio, time\n"
        "from retrograde.environments.threaded import in_thread\n"
        "async def hang(): time.sleep(600)\n"
        "async def main():\n"
        "    try: await asyncio.wait_for(in_thread(hang), 0.1)\n"
        "    except TimeoutError: print('left behind')\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stdout) == (0, "left behind\n"), done.stderr


async def test_all_else_is_the_environments_own():
    world = Market(turns=5, luck=0.5)
    threaded = Threaded(world)
    for name in (
        "name", "forking", "turn_limit", "success_return", "offers", "context", "max_new_tokens",
        "vocabulary",
    ):  # fmt: skip
        assert getattr(threaded, name) == getattr(world, name)
    assert threaded.task("test", 3) == world.task("test", 3)
    assert threaded.size("train") is None
    assert Threaded(Hop()).gold("train-0") == Hop().gold("train-0")
    assert dataclasses.asdict(threaded) == {"environment": dataclasses.asdict(world)}
    episode = await threaded.open("train-0", 1)
    plain = await world.open("train-0", 1)
    assert episode.opening() == plain.opening()
    assert await episode.act("open") == await plain.act("open")
    assert episode.state_key() == plain.state_key()
    assert episode.demonstrate(3) == plain.demonstrate(3)
    twin, other = episode.fork(2), plain.fork(2)
    assert await twin.act("trade tea") == await other.act("trade tea")
    await episode.close()
    await twin.close()


def test_columns_are_told_where_there_are_some():
    class WithColumns(Hop):
        def columns(self, task):
            return {"task": task}

    assert isinstance(WithColumns(), Columned)
    assert not isinstance(Hop(), Columned)
    for world in (WithColumns(), Threaded(WithColumns())):
        assert Known.of(world, "train-0") == Known(Hop().gold("train-0"), {"task": "train-0"})
    for world in (Market(), Threaded(Market())):
        assert Known.of(world, "train-0") == Known(None, {})

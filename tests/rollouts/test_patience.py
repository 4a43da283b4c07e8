"""Waiting for code that is not ours."""

import asyncio
import gc
import signal
import threading
import time
import weakref

import pytest

from retrograde.rollouts import patience
from retrograde.rollouts.patience import (
    Alarm,
    ExitedError,
    StalledError,
    StrayCancellationError,
    Vigil,
    at_once,
    heeding_alarms,
    never_waits,
    outcomes,
    within,
)

from .faulty import block, blocks


async def after(seconds, value):
    await asyncio.sleep(seconds)
    return value


async def test_what_comes_in_time_is_what_it_is():
    assert await within(5.0, lambda: after(0.01, 7), "it") == 7
    assert await within(5.0, lambda: after(0, None), "it") is None
    with pytest.raises(KeyError, match="inside"):
        await within(5.0, lambda: fails(KeyError("inside")), "it")


async def fails(error):
    await asyncio.sleep(0)
    raise error


async def test_what_comes_late_is_cancelled_and_said():
    seen = []

    async def tidy():
        try:
            await asyncio.sleep(60)
        finally:
            seen.append("tidied")

    with pytest.raises(TimeoutError, match=r"fetching took longer than 0.05 s"):
        await within(0.05, tidy, "fetching")
    assert seen == ["tidied"]


async def test_a_time_out_of_its_own_keeps_its_words():
    with pytest.raises(TimeoutError, match="the socket"):
        await within(5.0, lambda: fails(TimeoutError("the socket")), "it")


async def test_what_will_not_be_cancelled_is_left_behind(monkeypatch):
    monkeypatch.setattr(patience, "GRACE_SECONDS", 0.05)
    freed = asyncio.Event()

    async def stubborn():
        while not freed.is_set():
            try:
                await freed.wait()
            except asyncio.CancelledError:
                continue
        raise KeyError("nobody listens any more")

    begun = time.monotonic()
    with pytest.raises(TimeoutError):
        await within(0.05, stubborn, "it")
    assert time.monotonic() - begun < 30
    freed.set()
    await asyncio.sleep(0.01)


@pytest.mark.parametrize("pause", [0.0, 0.01])
async def test_what_blocks_is_broken_into_also_behind_a_pause(pause):
    async def blocks():
        if pause:
            await asyncio.sleep(pause)
        block()

    with pytest.raises(TimeoutError, match=r"blocked for 0\.1 s"):
        await within(0.1, blocks, "it")


async def test_others_go_on_while_one_is_broken_into():
    several = [within(0.1, blocks, "it"), *(within(0.1, lambda: after(0, 1), "it") for _ in "abc")]
    first, *others = await asyncio.gather(*several, return_exceptions=True)
    assert isinstance(first, TimeoutError)
    assert others == [1, 1, 1]


async def test_to_be_cancelled_from_outside_is_no_failure_of_the_call():
    seen = []

    async def call():
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.append("told")
            raise

    waiting = asyncio.ensure_future(within(60.0, call, "it"))
    await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert seen == ["told"]
    with pytest.raises(StrayCancellationError):
        await within(60.0, lambda: fails(asyncio.CancelledError()), "it")


def test_an_alarm_is_taken_back():
    before = signal.getsignal(signal.SIGALRM)
    with Alarm(60.0):
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
    assert signal.getsignal(signal.SIGALRM) is before
    with pytest.raises(StalledError), Alarm(0.05):
        time.sleep(60)
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
    assert signal.getsignal(signal.SIGALRM) is before


def test_an_alarm_that_is_not_heeded_rings_again(monkeypatch):
    monkeypatch.setattr(patience, "AGAIN_SECONDS", 0.05)
    heard = 0

    def deaf():
        nonlocal heard
        for _ in range(3):
            try:
                time.sleep(60)
            except StalledError:
                heard += 1
        time.sleep(60)

    with pytest.raises(TimeoutError):
        at_once(0.05, deaf)
    assert heard == 3


def test_somebody_elses_alarm_is_left_alone():
    rung = []
    before = signal.signal(signal.SIGALRM, lambda *_: rung.append(1))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with Alarm(0.05):
            time.sleep(0.3)
        assert rung == [1]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_outside_the_main_thread_there_is_no_alarm():
    found = []

    def work():
        found.append(at_once(0.01, lambda: time.sleep(0.05) or "done"))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == ["done"]


async def test_a_coroutine_without_an_await_is_run_right_here():
    """A task costs more than a turn in many a world; one that may wait gets it all the same."""
    seen = []

    async def prompt():
        seen.append(asyncio.current_task())
        return 3

    async def waiting():
        await asyncio.sleep(0)
        seen.append(asyncio.current_task())
        return 4

    took = []
    assert await within(5.0, prompt, "it", took.append) == 3
    assert await within(5.0, waiting, "it", took.append) == 4
    assert seen[0] is asyncio.current_task()
    assert seen[1] is not asyncio.current_task()
    assert len(took) == 2
    assert all(0 <= seconds < 5 for seconds in took)


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (KeyError("inside"), KeyError),
        (asyncio.CancelledError(), StrayCancellationError),
        (SystemExit(2), ExitedError),
        (TimeoutError("the socket"), TimeoutError),
    ],
)
async def test_what_a_prompt_coroutine_raises_is_what_any_would(raised, expected):
    async def prompt():
        raise raised

    took = []
    with pytest.raises(expected):
        await within(5.0, prompt, "it", took.append)
    assert took == []


async def test_a_prompt_coroutine_that_blocks_is_broken_into():
    async def prompt():
        block(30)

    with pytest.raises(TimeoutError, match=r"it blocked for 0\.05 s"):
        await within(0.05, prompt, "it")
    with heeding_alarms(), pytest.raises(TimeoutError, match=r"it blocked for 0\.05 s"):
        await within(0.05, prompt, "it")


def test_what_could_pause_is_known_by_its_code():
    async def plain(x):
        return [y for y in x if y]

    async def awaits(x):
        return await x

    async def enters(x):
        async with x:
            return 1

    async def loops(x):
        async for y in x:
            return y
        return None

    async def collects(x):
        return [y async for y in x]

    assert never_waits(plain.__code__)
    for each in (awaits, enters, loops, collects):
        assert not never_waits(each.__code__), each.__name__


def test_inside_of_it_alarms_ring_and_afterwards_the_old_handler_is_back():
    def mine(_number, _frame):
        pass

    before = signal.signal(signal.SIGALRM, mine)
    try:
        with heeding_alarms():
            with pytest.raises(StalledError, match=r"blocked for 0\.05 s"), Alarm(0.05):
                block(30)
            with Alarm(5.0):
                pass
            assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
            with heeding_alarms(), Alarm(5.0):  # one inside the other
                assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
        assert signal.getsignal(signal.SIGALRM) is mine
    finally:
        signal.signal(signal.SIGALRM, before)


async def test_outcomes_come_in_their_order_whoever_waits():
    begun = []

    async def prompt(n):
        begun.append(n)
        return n

    async def waiting(n):
        begun.append(n)
        await asyncio.sleep(0.02 / n)
        return n

    async def broken(n):
        begun.append(n)
        if n == 4:
            await asyncio.sleep(0)
        raise KeyError(n)

    found = await outcomes([waiting(1), prompt(2), broken(3), broken(4), waiting(5)])
    assert begun == [1, 2, 3, 4, 5]
    assert [found[0], found[1], found[4]] == [1, 2, 5]
    assert [repr(error) for error in found[2:4]] == ["KeyError(3)", "KeyError(4)"]


async def test_outcomes_hand_on_what_those_who_wait_are_told():
    async def told():
        future = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(future.set_exception, OSError("told"))
        with pytest.raises(OSError, match="told"):
            await future
        return await after(0.01, "and went on")

    assert await outcomes([told(), told()]) == ["and went on"] * 2


async def test_what_ends_the_program_ends_it_at_once():
    async def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await outcomes([after(0.01, 1), interrupted()])


async def in_turn(*calls):
    """What calls of (seconds, function) come to that share a timer."""

    async def one(seconds, call):
        return at_once(seconds, call)

    with heeding_alarms():
        found = await outcomes(one(*each) for each in calls)
        assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
        assert Vigil.kept is None
    return [repr(each) if isinstance(each, TimeoutError) else each for each in found]


def blocked(seconds):
    return f"TimeoutError('it blocked for {seconds:g} s without a pause')"


async def test_calls_that_share_a_timer_have_a_limit_each():
    """Five calls of 0.15 s take longer than 0.5 s together, and none of them does alone."""
    quick = (0.5, lambda: time.sleep(0.15) or "quick")
    found = await in_turn(*[quick] * 5, (0.5, lambda: block(30)), quick)
    assert found == ["quick"] * 5 + [blocked(0.5), "quick"]


async def test_a_shorter_limit_than_what_is_left_of_the_timer_holds():
    found = await in_turn((60.0, lambda: 1), (0.05, lambda: block(30)), (60.0, lambda: 2))
    assert found == [1, blocked(0.05), 2]


async def test_a_timer_that_somebody_stopped_is_set_anew():
    """Libraries with a time limit of their own use the very timer, and leave it stopped."""

    def stops():
        signal.setitimer(signal.ITIMER_REAL, 0)
        return "stopped"

    found = await in_turn((0.05, stops), (0.05, lambda: block(30)), (0.05, stops))
    assert found == ["stopped", blocked(0.05), "stopped"]


async def test_a_timer_is_shared_and_not_set_for_each_call(monkeypatch):
    settings = []
    original = signal.setitimer

    def counted(*given):
        settings.append(given)
        return original(*given)

    monkeypatch.setattr(signal, "setitimer", counted)
    assert await in_turn(*[(60.0, lambda: 1)] * 10) == [1] * 10
    assert settings == [
        (signal.ITIMER_REAL, 60.0, patience.AGAIN_SECONDS),
        (signal.ITIMER_REAL, 0),
    ]


async def test_a_call_inside_a_call_has_the_limit_of_the_outer_one():
    found = await in_turn((0.05, lambda: at_once(60.0, lambda: block(30))), (0.05, lambda: 1))
    assert found == [blocked(0.05), 1]


async def test_where_somebody_elses_timer_runs_none_is_shared():
    rung = []
    with heeding_alarms():
        before = signal.signal(signal.SIGALRM, lambda *_: rung.append(1))
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        try:
            found = await outcomes([after_blocking(0.3)])
            assert Vigil.kept is None
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
    assert found == ["done"]
    assert rung == [1]


async def after_blocking(seconds):
    return at_once(0.05, lambda: time.sleep(seconds) or "done")


async def test_what_calls_come_to_is_held_by_nobody_afterwards():
    """A caught error leads to the frame it was caught in, and would keep all of it alive."""

    class Outcome:
        pass

    async def made():
        return Outcome()

    gc.disable()
    try:
        found = await outcomes([made(), made()])
        alive = [weakref.ref(each) for each in found]
        del found
        assert [ref() for ref in alive] == [None] * 2
    finally:
        gc.enable()

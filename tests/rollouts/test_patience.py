"""Waiting for code that is not ours."""

import asyncio
import signal
import threading
import time

import pytest

from retrograde.rollouts import patience
from retrograde.rollouts.patience import (
    Alarm,
    StalledError,
    StrayCancellationError,
    at_once,
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

"""Callbacks that block the event loop are counted, logged, and shown with their stack."""

from __future__ import annotations

import asyncio
import logging
import re
import time

import pytest

from pybroker import loop_watch
from pybroker.loop_watch import STACK_S, STALL_S, LoopWatch

pytestmark = pytest.mark.nightly


async def settle() -> None:
    """Lets the watch's timer fire."""
    await asyncio.sleep(0.3)


def burn(seconds: float) -> None:
    """Uses so many seconds of CPU time, independently of other processes."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def watched(work: float, wait: float = 0.0) -> LoopWatch:
    """Returns the watch of a loop that one callback has blocked."""

    async def run() -> LoopWatch:
        watch = LoopWatch(asyncio.get_running_loop())
        watch.start()
        await settle()
        burn(work)
        time.sleep(wait)
        await settle()
        watch.stop()
        return watch

    return asyncio.run(run())


def test_a_stall_of_the_loop_is_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    watch = watched(work=0.4)
    assert watch.stalls >= 1
    assert watch.longest_s > 0.2
    assert watch.busiest_s > 0.1
    assert "the event loop was held for" in caplog.text


def test_a_callback_that_waits_uses_no_cpu() -> None:
    watch = watched(work=0.0, wait=0.4)
    assert watch.longest_s > 0.2
    assert watch.busiest_s < 0.1


@pytest.mark.parametrize(
    ("stall_s", "cpu_s", "level"),
    [
        (STALL_S * 3, STALL_S / 2, logging.DEBUG),
        (STALL_S * 3, STALL_S * 2, logging.WARNING),
        (STACK_S * 2, STALL_S / 2, logging.INFO),
    ],
)
def test_a_stall_without_cpu_time_is_logged_only_if_it_lasts(
    caplog: pytest.LogCaptureFixture, stall_s: float, cpu_s: float, level: int
) -> None:
    caplog.set_level(logging.DEBUG, loop_watch.logger.name)
    loop = asyncio.new_event_loop()
    LoopWatch(loop)._has_stalled(stall_s, cpu_s)
    loop.close()
    assert [record.levelno for record in caplog.records] == [level]


def test_a_suppressed_line_delays_no_other_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, loop_watch.logger.name)
    loop = asyncio.new_event_loop()
    watch = LoopWatch(loop)
    watch._has_stalled(STALL_S * 3, 0.0)
    watch._has_stalled(STALL_S * 3, STALL_S * 2)
    loop.close()
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def a_long_computation() -> None:
    time.sleep(STACK_S * 2)


@pytest.mark.parametrize(("cpu_s", "level"), [(STALL_S / 2, logging.INFO), (STALL_S * 2, logging.WARNING)])
def test_the_stack_of_a_process_without_cpu_time_is_no_warning(
    caplog: pytest.LogCaptureFixture, cpu_s: float, level: int
) -> None:
    caplog.set_level(logging.DEBUG, loop_watch.logger.name)
    loop = asyncio.new_event_loop()
    LoopWatch(loop)._log_stack(STACK_S * 1.2, cpu_s)
    loop.close()
    assert [record.levelno for record in caplog.records] == [level]


def test_another_thread_logs_the_stack_during_a_stall(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, loop_watch.logger.name)

    async def run() -> float:
        watch = LoopWatch(asyncio.get_running_loop())
        watch.start()
        await settle()
        seen = asyncio.get_running_loop().run_in_executor(None, silence, watch)
        await asyncio.sleep(0)
        a_long_computation()
        told = caplog.text
        watch.stop()
        assert "a_long_computation" in told
        return await seen

    def silence(watch: LoopWatch) -> float:
        time.sleep(STACK_S)
        return watch.silent_s()

    assert asyncio.run(run()) > STACK_S / 2


def test_the_stack_is_logged_on_one_line_innermost_function_first(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, loop_watch.logger.name)

    async def run() -> None:
        watch = LoopWatch(asyncio.get_running_loop())
        watch.start()
        await settle()
        a_long_computation()
        watch.stop()

    asyncio.run(run())
    told = next(text for text in map(logging.LogRecord.getMessage, caplog.records) if "a_long_computation" in text)
    assert "\n" not in told
    assert re.search(rf"it is at {re.escape(__name__)}:\d+ a_long_computation < {re.escape(__name__)}:\d+ run <", told)


def test_the_cause_of_a_stall_is_logged_once(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_watch, "LINE_S", 0.0)
    caplog.set_level(logging.DEBUG, loop_watch.logger.name)

    async def run() -> int:
        watch = LoopWatch(asyncio.get_running_loop())
        watch.start()
        await settle()
        before = watch.stalls
        time.sleep(4 * STALL_S)
        watch.stalled(4 * STALL_S, "Fetch")
        await asyncio.sleep(0)
        watch.stop()
        return watch.stalls - before

    assert asyncio.run(run()) == 1
    assert "Fetch held the event loop for 200 ms" in caplog.text


def test_a_loop_that_is_not_watched_is_not_silent() -> None:
    async def run() -> float:
        return LoopWatch(asyncio.get_running_loop()).silent_s()

    assert asyncio.run(run()) == 0.0

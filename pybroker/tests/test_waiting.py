"""A handler that is a coroutine: what it does at once, how it waits, what reaches it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

import pytest
import uvloop

from pybroker import waiting


def on_a_loop(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    """Runs the test on the loop of the broker."""

    @wraps(test)
    def run() -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(test())  # type: ignore[arg-type]

    return run


def start(work: Any) -> Any:
    return waiting.start(work, asyncio.get_running_loop())


@on_a_loop
async def test_what_does_not_wait_is_answered_at_once_without_a_task() -> None:
    async def work() -> str:
        return "now"

    assert start(work()) == "now"
    assert len(asyncio.all_tasks()) == 1


@on_a_loop
async def test_what_fails_before_it_waits_raises_at_once() -> None:
    async def work() -> None:
        raise KeyError("now")

    with pytest.raises(KeyError):
        start(work())


@on_a_loop
async def test_all_before_the_first_wait_is_done_when_start_returns() -> None:
    done = []

    async def work() -> str:
        done.append("view used")
        await asyncio.sleep(0)
        done.append("waited")
        return "later"

    task = start(work())
    assert isinstance(task, asyncio.Task)
    assert done == ["view used"]
    assert await task == "later"
    assert done == ["view used", "waited"]


@on_a_loop
async def test_waits_follow_one_another_and_a_failure_of_what_is_awaited_can_be_caught() -> None:
    first, second, third = (asyncio.get_running_loop().create_future() for _ in range(3))

    async def work() -> list[str]:
        heard = [await first]
        try:
            await second
        except KeyError:
            heard.append("failed")
        return [*heard, await third]

    task = start(work())
    for future, end in ((first, lambda: first.set_result("one")), (second, lambda: second.set_exception(KeyError()))):
        assert not future.done()
        end()
        await asyncio.sleep(0.001)
    third.set_result("three")
    assert await task == ["one", "failed", "three"]


@on_a_loop
async def test_a_failure_of_the_first_wait_may_be_caught_and_waited_on() -> None:
    first, second = (asyncio.get_running_loop().create_future() for _ in range(2))

    async def work() -> str:
        try:
            await first
        except KeyError:
            return "after " + await second
        return "never"

    task = start(work())
    first.set_exception(KeyError())
    await asyncio.sleep(0.001)
    second.set_result("that")
    assert await task == "after that"


@on_a_loop
async def test_the_first_wait_is_not_over_before_what_it_waits_for() -> None:
    first = asyncio.get_running_loop().create_future()

    async def work() -> Any:
        return await first

    task = start(work())
    await asyncio.sleep(0.005)
    assert not task.done()
    first.set_result("there")
    assert await task == "there"


@pytest.mark.parametrize("turns", [0, 1, 3], ids=["before its first step", "one turn later", "later"])
def test_a_cancellation_reaches_the_work_whenever_it_comes(turns: int) -> None:
    heard = []

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            heard.append("cancelled")
            await asyncio.sleep(0)
            heard.append("tidied up")
            raise

    @on_a_loop
    async def scenario() -> None:
        task = start(work())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    scenario()
    assert heard == ["cancelled", "tidied up"]


@on_a_loop
async def test_a_cancellation_may_be_answered_with_a_result() -> None:
    async def work() -> str:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            return "given up"
        return "never"

    task = start(work())
    task.cancel()
    assert await task == "given up"


@on_a_loop
async def test_behind_the_first_wait_the_work_has_a_task() -> None:
    async def work() -> bool:
        await asyncio.sleep(0)
        async with asyncio.timeout(5):
            await asyncio.sleep(0)
        return asyncio.current_task() is not None

    assert await start(work())

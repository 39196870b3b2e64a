"""A handler that is a coroutine: what it does at once, how it waits, and how it is cancelled."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec

import pytest
import uvloop

from pybroker import waiting

P = ParamSpec("P")


def on_a_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Runs the test on the loop of the broker."""

    @wraps(test)
    def run(*arguments: P.args, **named: P.kwargs) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(test(*arguments, **named))

    return run


async def turns() -> None:
    """Lets the loop do all that is ready, and what follows from it."""
    for _ in range(10):
        await asyncio.sleep(0)


def start(work: Any) -> Any:
    return waiting.start(work, asyncio.get_running_loop())


@on_a_loop
async def test_work_that_does_not_wait_ends_at_once_without_a_task() -> None:
    async def work() -> str:
        return "now"

    assert start(work()) == "now"
    assert len(asyncio.all_tasks()) == 1


@on_a_loop
async def test_work_that_fails_before_it_waits_raises_at_once() -> None:
    async def work() -> None:
        raise KeyError("now")

    with pytest.raises(KeyError):
        start(work())


@on_a_loop
async def test_everything_before_the_first_wait_is_done_when_start_returns() -> None:
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
        await turns()
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
    await turns()
    second.set_result("that")
    assert await task == "after that"


@on_a_loop
async def test_the_first_wait_is_not_over_before_what_it_waits_for() -> None:
    first = asyncio.get_running_loop().create_future()

    async def work() -> Any:
        return await first

    task = start(work())
    await turns()
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


LIMITS: list[Callable[[asyncio.Future[None]], Awaitable[None]]] = []


@LIMITS.append
async def by_timeout(never: asyncio.Future[None]) -> None:
    async with asyncio.timeout(0.001):
        await never


@LIMITS.append
async def by_timeout_at_once(never: asyncio.Future[None]) -> None:
    """It ends before the task has begun, as a short one does on a slow machine."""
    async with asyncio.timeout(0):
        await never


@LIMITS.append
async def by_wait_for(never: asyncio.Future[None]) -> None:
    await asyncio.wait_for(never, 0.001)


@LIMITS.append
async def by_group(never: asyncio.Future[None]) -> None:
    async def fail() -> None:
        raise TimeoutError

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
            await never
    except* TimeoutError as errors:
        raise errors.exceptions[0] from None


@pytest.mark.parametrize("waits", [0, 1], ids=["the first", "a later one"])
@pytest.mark.parametrize("limit", LIMITS)
@on_a_loop
async def test_any_wait_may_be_limited(limit: Any, waits: int) -> None:
    async def work() -> str:
        for _ in range(waits):
            await asyncio.sleep(0)
        never = asyncio.get_running_loop().create_future()
        with pytest.raises(TimeoutError):
            await limit(never)
        assert never.cancelled()
        await asyncio.sleep(0)
        return "gave up"

    assert await started_by_the_loop(work()) == "gave up"
    task = start(work())
    assert await task == "gave up"
    assert not task.cancelling()


async def started_by_the_loop(work: Any) -> Any:
    """Starts it like a readable socket does, without a task."""
    loop = asyncio.get_running_loop()
    begun = loop.create_future()

    def begin() -> None:
        try:
            begun.set_result(start(work))
        except BaseException as error:
            begun.set_exception(error)

    loop.call_soon(begin)
    return await (await begun)


@on_a_loop
async def test_a_cancellation_during_a_limited_first_wait_is_no_timeout() -> None:
    async def work() -> None:
        async with asyncio.timeout(60):
            await asyncio.get_running_loop().create_future()

    task = start(work())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("waits", [0, 1], ids=["during its first step", "later"])
@on_a_loop
async def test_work_may_cancel_itself(waits: int) -> None:
    async def work() -> None:
        for _ in range(waits):
            await asyncio.sleep(0)
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        assert task.cancelling() == 1
        await asyncio.sleep(0)

    with pytest.raises(asyncio.CancelledError):
        await start(work())


@on_a_loop
async def test_the_starter_of_work_is_another_task_than_the_work() -> None:
    own = asyncio.current_task()
    seen: list[object] = []

    async def at_once() -> None:
        seen.append(asyncio.current_task())

    async def waits() -> None:
        await at_once()
        await asyncio.sleep(0)

    async def fails() -> None:
        await at_once()
        raise KeyError

    assert start(at_once()) is None
    task = start(waits())
    with pytest.raises(KeyError):
        start(fails())
    assert len(seen) == 3
    assert None not in seen
    assert own not in seen
    assert asyncio.current_task() is own
    await task


@on_a_loop
async def test_awaited_work_leaves_nothing_to_the_garbage_collector() -> None:
    class Request:
        """Something that the work holds."""

    async def work(request: Request) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.get_running_loop().create_future(), 0.001)
        raise KeyError

    gc.collect()
    gc.disable()
    try:
        request = Request()
        alive = weakref.ref(request)
        task = start(work(request))
        del request
        await asyncio.wait([task])
        assert isinstance(task.exception(), KeyError)
        del task
        await asyncio.sleep(0)
        assert alive() is None
    finally:
        gc.enable()

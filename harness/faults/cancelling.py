"""Cancels a coroutine at its n-th step, the work between two waits. Steps are counted, not timed."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any

PATIENCE_S = 60.0
Operation = Callable[[], Coroutine[Any, Any, object]]


@types.coroutine
def stepping(
    work: Coroutine[Any, Any, Any], at: int, reached: Callable[[], object], is_late: bool = False
) -> Generator[Any, Any, Any]:
    """Runs the coroutine, and calls ``reached()`` at the start of step number ``at``. With ``is_late``, it calls it
    after the wait at the end of that step, and replaces the awaited result by a cancellation.
    """
    step, value, error = 0, None, None
    while True:
        step += 1
        if step == at and not is_late:
            reached()
        try:
            waiting = work.send(value) if error is None else work.throw(error)
        except StopIteration as end:
            return end.value
        value, error = None, None
        try:
            value = yield waiting
        except BaseException as thrown:
            error = thrown
        if step == at and is_late:
            reached()
            error = asyncio.CancelledError()


async def cancelled_at(
    step: int, operation: Operation, is_late: bool = False, *, may_raise: type[Exception] | tuple[()] = ()
) -> tuple[bool, object]:
    """Cancels the operation at that step. Returns whether it has reached the step, and its result or its exception if
    it was not cancelled. With ``is_late``, the cancellation comes together with the result of the wait. Raises
    AssertionError if the operation hangs, or raises another exception than ``may_raise``.
    """
    was_reached = False
    task: asyncio.Task[object]

    def reached() -> None:
        nonlocal was_reached
        was_reached = True
        if not is_late:
            task.cancel()

    async def work() -> object:
        return await stepping(operation(), step, reached, is_late)

    task = asyncio.create_task(work())
    done, _ = await asyncio.wait([task], timeout=PATIENCE_S)
    assert done, f"{operation} hangs, cancelled at step {step}"
    if task.cancelled():
        return True, None
    error = task.exception()
    assert error is None or isinstance(error, may_raise), repr(error)
    return was_reached, error if error is not None else task.result()

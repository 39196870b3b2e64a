"""Runs the first step of an ``async def`` handler without a task: Python 3.11 has no eager tasks (``waiting``).

A time limit around the first wait (``asyncio.timeout``) needs a current task, which it cancels later. During the first
step, a stand-in is the current task.
"""

from __future__ import annotations

import asyncio
from asyncio.tasks import _enter_task, _leave_task
from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Any, cast


class _StandIn:
    """The current task during a first step. It passes later calls on to the real task."""

    __slots__ = ("_cancellations", "_task")

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None
        self._cancellations = 0

    def done(self) -> bool:
        return self._task is not None and self._task.done()

    def cancel(self, msg: Any = None) -> bool:
        if self._task is not None:
            return self._task.cancel(msg)
        self._cancellations += 1
        return True

    def cancelling(self) -> int:
        return self._cancellations if self._task is None else self._task.cancelling()

    def uncancel(self) -> int:
        if self._task is not None:
            return self._task.uncancel()
        self._cancellations = max(0, self._cancellations - 1)
        return self._cancellations

    def become(self, task: asyncio.Task[Any]) -> asyncio.Task[Any]:
        """Replaces the stand-in by ``task``. Cancels the task if the stand-in was cancelled during the first step."""
        self._task = task
        for _ in range(self._cancellations):
            task.cancel()
        return task


def start(work: Coroutine[Any, Any, Any], loop: asyncio.AbstractEventLoop) -> Any:
    """Returns the result of ``work`` if it did not have to wait, else a task for its remaining steps. Raises the errors
    of ``work``.
    """
    stand_in = _StandIn()
    current = cast("asyncio.Task[Any]", stand_in)
    outer = asyncio.current_task(loop)
    if outer is not None:
        _leave_task(loop, outer)
    _enter_task(loop, current)
    try:
        awaited = work.send(None)
    except StopIteration as stop:
        return stop.value
    finally:
        _leave_task(loop, current)
        if outer is not None:
            _enter_task(loop, outer)
    rest = _rest(work, awaited)
    rest.send(None)
    return stand_in.become(loop.create_task(rest))


async def _rest(work: Coroutine[Any, Any, Any], awaited: Any) -> Any:
    """Wraps ``_resume`` for a task, which accepts no generator."""
    return await _resume(work, awaited)


@coroutine
def _resume(work: Coroutine[Any, Any, Any], awaited: Any) -> Generator[Any, None, Any]:
    """Waits for ``awaited``, which ``work`` has already yielded, then continues with ``work``.

    The first yield is for ``start``: from then on a cancellation reaches ``work``, even one before the task's first
    step. As in any task, the awaited future is cancelled first.
    """
    started = False
    while True:
        try:
            if not started:
                started = True
                yield
            yield awaited
            break
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and awaited is not None and awaited.cancel():
                continue
            try:
                awaited = work.throw(error)
            except StopIteration as stop:
                return stop.value
    return (yield from work)

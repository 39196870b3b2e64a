"""Helpers for background tasks.

An unexpected end of a task is logged and reported to code that can raise it. The module also ends tasks, and calls
functions of the application, whose errors must not affect the client.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from pyclient.errors import ClientError, KafkaError

log = logging.getLogger(__name__)


def running_loop(what: str) -> asyncio.AbstractEventLoop:
    """Returns the running loop. Raises RuntimeError if none runs; the text tells where to create ``what``."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError(f"no event loop is running: create {what} in a coroutine") from None


def watched(
    loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, None], what: str, on_fault: Callable[[KafkaError], None]
) -> asyncio.Task[None]:
    """Returns the work as a task. Its errors are passed to ``on_fault``: a KafkaError unchanged; another one is logged
    and becomes the cause of an error that says ``what`` failed.
    """

    def done(task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        if not isinstance(error, KafkaError):
            log.error("%s failed", what, exc_info=error)
            failure = ClientError(f"{what} failed: {error!r}")
            failure.__cause__ = error
            error = failure
        on_fault(error)

    task = loop.create_task(work)
    task.add_done_callback(done)
    return task


async def ended(task: asyncio.Task[Any]) -> None:
    """Cancels the task and waits for its end. Raises its exception unless that is a KafkaError.

    This does not use ``await task``: the cancellations of the waiting and of the awaited task would be the same
    exception, so suppressing one would swallow the other.
    """
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, KafkaError):
        raise error


class Ending:
    """The end of a client. One task closes it, within ``with``; other tasks that close the client wait for it."""

    def __init__(self) -> None:
        self._by: asyncio.Task[Any] | None = None
        self._is_over = asyncio.Event()

    def __enter__(self) -> None:
        self._by = asyncio.current_task()

    def __exit__(self, *_: object) -> None:
        self._is_over.set()

    async def wait(self, timeout: float | None) -> None:
        """Waits for the end, or for ``timeout`` seconds. Returns at once in the task that closes the client, for
        example in a listener that it calls.
        """
        if asyncio.current_task() is not self._by:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._is_over.wait()


def tell(loop: asyncio.AbstractEventLoop, what: str, function: Callable[..., object], *arguments: Any) -> None:
    """Calls a function of the application on the loop. Its exceptions are logged and end nothing."""
    try:
        function(*arguments)
    except BaseException as error:
        log.exception("%s, %r, failed", what, function)
        raise_on(loop, error)


def raise_on(loop: asyncio.AbstractEventLoop, error: BaseException | None) -> None:
    """If a function of the application raises SystemExit or KeyboardInterrupt, ends its loop, as asyncio does. This
    happens in a callback of its own, not within the client's work. Other exceptions end nothing.
    """
    if isinstance(error, SystemExit | KeyboardInterrupt):
        loop.call_soon(_raise, error)


def _raise(error: BaseException) -> None:
    raise error

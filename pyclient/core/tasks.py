"""Helpers for background tasks. An unexpected end of a task is logged and reported to code that can raise it. The
module also ends tasks, and calls functions of the application, whose errors are not the client's.
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
    """Returns the running loop. Raises RuntimeError without one, which says where to make ``what``."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError(f"no event loop is running: make {what} in a coroutine") from None


def watched(
    loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, None], what: str, on_fault: Callable[[KafkaError], None]
) -> asyncio.Task[None]:
    """The work as a task. What it raises comes to ``on_fault``: a KafkaError as it is, anything else is a
    fault, which is logged, as the cause of one that says ``what`` failed.
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
    """Returns when the task, which is cancelled, has ended. What it raised is raised where it is no KafkaError.

    Not ``await task``: the cancellation of the waiting task and that of the awaited one would be the same exception,
    so suppressing one would swallow the other.
    """
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, KafkaError):
        raise error


class Ending:
    """The end of a client. One task brings it about, within ``with``; others that close the client wait for it."""

    def __init__(self) -> None:
        self._by: asyncio.Task[Any] | None = None
        self._is_over = asyncio.Event()

    def __enter__(self) -> None:
        self._by = asyncio.current_task()

    def __exit__(self, *_: object) -> None:
        self._is_over.set()

    async def wait(self, timeout: float | None) -> None:
        """Returns at the end, or after ``timeout`` seconds. In the task that brings it about, such as in a listener
        that is called meanwhile, it returns at once.
        """
        if asyncio.current_task() is not self._by:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._is_over.wait()


def tell(loop: asyncio.AbstractEventLoop, what: str, function: Callable[..., object], *arguments: Any) -> None:
    """Calls a function of the application's, on the loop. What it raises is logged, and ends nothing."""
    try:
        function(*arguments)
    except BaseException as error:
        log.exception("%s, %r, failed", what, function)
        raise_on(loop, error)


def raise_on(loop: asyncio.AbstractEventLoop, error: BaseException | None) -> None:
    """If a function of the application raises SystemExit or KeyboardInterrupt, that ends its loop, as in asyncio. It
    does so in a callback of its own, not within the client's work. What else it raises ends nothing.
    """
    if isinstance(error, SystemExit | KeyboardInterrupt):
        loop.call_soon(_raise, error)


def _raise(error: BaseException) -> None:
    raise error

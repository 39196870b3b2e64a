"""Helpers for background tasks. An unexpected end of a task is logged and reported to code that can raise it. The
module also ends tasks, and calls functions of the application, whose errors are not the client's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from pyclient.errors import ClientError, KafkaError

log = logging.getLogger(__name__)


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

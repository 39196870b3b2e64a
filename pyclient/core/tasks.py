"""Tasks that nobody awaits: what ends one unexpectedly is logged, and told to who can raise it."""

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

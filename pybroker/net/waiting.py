"""Runs an ``async def`` handler: at once up to its first real wait, from there as a task.

Most such handlers answer without waiting at all, and those that do wait use the views of their
request before. Python 3.12 has eager tasks for this; here the first step is taken by hand, and a
generator continues from where it stopped. Until the first wait there is no current task
(``asyncio.timeout`` wants one).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Any


def start(work: Coroutine[Any, Any, Any], loop: asyncio.AbstractEventLoop) -> Any:
    """The result of ``work`` if it did not have to wait, else a task that ends with it. Raises what
    ``work`` raises.
    """
    try:
        awaited = work.send(None)
    except StopIteration as stop:
        return stop.value
    return loop.create_task(_resume(work, awaited))


@coroutine
def _resume(work: Coroutine[Any, Any, Any], awaited: Any) -> Generator[Any, None, Any]:
    """Waits for ``awaited``, which ``work`` has yielded already, then goes on with ``work``."""
    while True:
        try:
            yield awaited
            break
        except BaseException as error:
            try:
                awaited = work.throw(error)
            except StopIteration as stop:
                return stop.value
    return (yield from work)

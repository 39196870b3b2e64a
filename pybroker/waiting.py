"""Runs an ``async def`` handler: at once up to its first real wait, from there as a task.

Most such handlers answer without waiting at all, and those that do wait use the views of their
request before. Python 3.12 has eager tasks for this; a first step that is taken by hand costs a
half of one, and 3.11 has none. Until the first wait there is no current task (``asyncio.timeout``
wants one).
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
    rest = _rest(work, awaited)
    rest.send(None)
    return loop.create_task(rest)


async def _rest(work: Coroutine[Any, Any, Any], awaited: Any) -> Any:
    """``_resume`` for a task, which takes no generator."""
    return await _resume(work, awaited)


@coroutine
def _resume(work: Coroutine[Any, Any, Any], awaited: Any) -> Generator[Any, None, Any]:
    """Waits for ``awaited``, which ``work`` has yielded already, then goes on with ``work``.

    The first yield is for ``start``: from then on a cancellation reaches ``work``, also one that
    comes before the task's first step.
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
            try:
                awaited = work.throw(error)
            except StopIteration as stop:
                return stop.value
    return (yield from work)

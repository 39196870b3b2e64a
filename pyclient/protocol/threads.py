"""Runs blocking work on its own thread, which does not keep a program from exiting."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")


async def on_thread(loop: asyncio.AbstractEventLoop, name: str, work: Callable[[], T]) -> T:
    """Returns the result of ``work``, or raises its exception. SystemExit and others that would end a thread or a loop
    become a RuntimeError. If the wait is cancelled, the thread continues. Raises RuntimeError if no thread can start.
    """
    answer: asyncio.Future[T] = loop.create_future()

    def settle(end: Callable[[Any], None], found: Any) -> None:
        if not answer.done():
            end(found)

    def run() -> None:
        try:
            told = partial(settle, answer.set_result, work())
        except BaseException as error:
            is_harmless = isinstance(error, Exception) and not isinstance(error, StopIteration)
            told = partial(settle, answer.set_exception, error if is_harmless else RuntimeError(repr(error)))
        with suppress(RuntimeError):  # the loop is closed, so nothing waits
            loop.call_soon_threadsafe(told)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await answer

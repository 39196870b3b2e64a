"""Work that would hold up an event loop, on a thread of its own, which keeps no program from ending."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")


async def on_thread(loop: asyncio.AbstractEventLoop, name: str, work: Callable[[], T]) -> T:
    """What ``work`` returns or raises; what would end a thread or a loop, SystemExit for one, is a RuntimeError. A wait
    that is cancelled leaves the thread to itself. Raises RuntimeError where no thread can begin.
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
        with suppress(RuntimeError):  # nobody waits: the loop is closed
            loop.call_soon_threadsafe(told)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await answer

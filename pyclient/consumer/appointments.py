"""Calls of the rebalance listener and other work for the application's thread, done within ``poll``.

A partition may only be given up after the application has processed its records, which it shows by polling. So every
revocation waits for a poll, with or without a listener. With a listener, the assignment changes in the same poll:
``assignment`` has the partitions that the listener is told about.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from pyclient.topic_partition import TopicPartition

SETTLE, REVOKED, ASSIGNED, LOST = "settle", "on_partitions_revoked", "on_partitions_assigned", "on_partitions_lost"


class Call(NamedTuple):
    """A listener method to call, or only a poll to wait for (SETTLE)."""

    action: str
    partitions: frozenset[TopicPartition]
    change: Callable[[], None]
    """Applies the change: new partitions are added before the listener is called, and old ones are removed after it has
    returned.
    """
    done: asyncio.Future[None]


class Appointments:
    """Calls that wait for the application's next poll."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_ready: Callable[[], None] = lambda: None) -> None:
        """``on_ready`` is called when there is a call to make."""
        self._loop = loop
        self._calls: deque[Call] = deque()
        self._on_ready = on_ready

    async def at_poll(
        self, action: str, partitions: Collection[TopicPartition] = (), change: Callable[[], None] = lambda: None
    ) -> None:
        """Waits until the application's thread has made the call. Runs on the loop."""
        call = Call(action, frozenset(partitions), change, self._loop.create_future())
        self._calls.append(call)
        self._on_ready()
        await call.done

    def due(self) -> Call | None:
        """Returns the next call. The caller must then enter ``keeping`` with it. Any thread may call this."""
        while self._calls:
            call = self._calls.popleft()
            if not call.done.cancelled():
                return call
        return None

    def __bool__(self) -> bool:
        return bool(self._calls)

    @contextmanager
    def keeping(self, call: Call) -> Iterator[None]:
        """Returns a context in which the listener is called; the change is applied even if it raises. Any thread may
        use it.
        """
        try:
            if call.action == ASSIGNED:
                call.change()
            yield
        finally:
            if call.action != ASSIGNED:
                call.change()
            self._loop.call_soon_threadsafe(_finish, call.done)


def _finish(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)

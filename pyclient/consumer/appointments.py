"""What the group needs done on the application's thread: it is done within ``poll``.

A partition may only be given up when the application has processed its records, which it shows by polling. So every
revocation waits for a poll, whether or not there is a listener. With one, the assignment changes in the same poll: the
partitions it hears of are those that ``assignment`` has.
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
    """A method of the listener to call, or just to have polled (SETTLE)."""

    action: str
    partitions: frozenset[TopicPartition]
    change: Callable[[], None]
    """Applies the change: new partitions are ours before the listener is called, old ones until it has returned."""
    done: asyncio.Future[None]


class Appointments:
    """Calls that wait for the application's next poll."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_ready: Callable[[], None] = lambda: None) -> None:
        """``on_ready`` is called when there is one."""
        self._loop = loop
        self._calls: deque[Call] = deque()
        self._on_ready = on_ready

    async def at_poll(
        self, action: str, partitions: Collection[TopicPartition] = (), change: Callable[[], None] = lambda: None
    ) -> None:
        """Returns when the application has done it. On the loop."""
        call = Call(action, frozenset(partitions), change, self._loop.create_future())
        self._calls.append(call)
        self._on_ready()
        await call.done

    def due(self) -> Call | None:
        """Returns the next call. The caller then has to be ``keeping`` it. Any thread may call this."""
        while self._calls:
            call = self._calls.popleft()
            if not call.done.cancelled():
                return call
        return None

    def __bool__(self) -> bool:
        return bool(self._calls)

    @contextmanager
    def keeping(self, call: Call) -> Iterator[None]:
        """A context in which the listener is called, whatever it raises. Any thread may use it."""
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

"""The replicas whose logs are still missing. A log is created when a request first needs it, otherwise soon.

CreateTopics is answered when the topic's metadata is durable. The logs are empty, so they are created afterwards: one
in each turn of the loop, in the order of the metadata. Nothing is acknowledged before its log exists. So a broker that
stops or dies before it has created a log simply creates it at its next start.

State machine: no clock, no I/O; ``make`` does the work.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Set
from typing import Final

from pybroker.replication.partition import Partition

Make = Callable[[bytes, int], Partition | None]

NOTHING: Final = frozenset[int]()


class NewLogs:
    """The logs that are still missing, by topic id and index. The object is true while it has any."""

    def __init__(self, make: Make, loop: asyncio.AbstractEventLoop) -> None:
        """``make(topic id, index)`` creates one log; it returns None if that failed."""
        self._make = make
        self._loop = loop
        self._left: dict[bytes, set[int]] = {}
        self._queue: deque[tuple[bytes, int]] = deque()
        """The order of creation. Entries that are no longer in ``_left`` are skipped."""
        self._next_turn: asyncio.Handle | None = None

    def __bool__(self) -> bool:
        return bool(self._left)

    def __iter__(self) -> Iterator[tuple[bytes, int]]:
        return iter([(topic_id, index) for topic_id, indexes in self._left.items() for index in indexes])

    def of(self, topic_id: bytes) -> Set[int]:
        """Returns the indexes of the topic's partitions whose logs are still missing."""
        return self._left.get(topic_id, NOTHING)

    def add(self, topic_id: bytes, index: int) -> None:
        """Adds a log, to be created when a request needs it, or after ``go_on``."""
        left = self._left.setdefault(topic_id, set())
        if index not in left:
            left.add(index)
            self._queue.append((topic_id, index))

    def discard(self, topic_id: bytes, index: int) -> bool:
        """Removes a log that exists by now or is not needed. Returns True if the log was among the missing ones."""
        left = self._left.get(topic_id)
        if left is None or index not in left:
            return False
        left.remove(index)
        if not left:
            del self._left[topic_id]
        return True

    def give_up(self, topic_id: bytes) -> None:
        """Removes all logs of the topic: they need not be created."""
        self._left.pop(topic_id, None)

    def make(self, topic_id: bytes, index: int) -> Partition | None:
        """Creates the log if it is still missing, and returns its partition; otherwise returns None."""
        return self._make(topic_id, index) if self.discard(topic_id, index) else None

    def go_on(self) -> None:
        """Starts to create the remaining logs, one in each turn of the loop."""
        if self._next_turn is None and self._left:
            self._next_turn = self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._next_turn = None
        while self._left:
            replica = self._queue.popleft()
            if self.discard(*replica):
                self.go_on()
                self._make(*replica)
                return
        self._queue.clear()

    def pause(self) -> None:
        """Creates only logs that requests need, until ``go_on`` is called."""
        if self._next_turn is not None:
            self._next_turn.cancel()
            self._next_turn = None

    def close(self) -> None:
        """Stops creating logs, because the broker stops."""
        self.pause()
        self._left.clear()

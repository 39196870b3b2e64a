"""The replicas whose logs are still to be made: each when it is needed first, and all of them soon.

A new topic is answered for when its metadata are durable. Its logs are empty, so they can be made afterwards: one log
in a turn of the loop, in the order of the metadata. Nothing is acknowledged in a log that is not there. So a broker
that stops, or dies, before it has made a log makes it at its next start.

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
    """What is still to be made, by topic id and index; true where that is anything."""

    def __init__(self, make: Make, loop: asyncio.AbstractEventLoop) -> None:
        """``make(topic id, index)`` makes one log; None where that failed."""
        self._make = make
        self._loop = loop
        self._left: dict[bytes, set[int]] = {}
        self._queue: deque[tuple[bytes, int]] = deque()
        """In order. What is no longer in ``_left`` is passed over."""
        self._next_turn: asyncio.Handle | None = None

    def __bool__(self) -> bool:
        return bool(self._left)

    def __iter__(self) -> Iterator[tuple[bytes, int]]:
        return iter([(topic_id, index) for topic_id, indexes in self._left.items() for index in indexes])

    def of(self, topic_id: bytes) -> Set[int]:
        """The indexes of a topic's partitions whose logs are to be made."""
        return self._left.get(topic_id, NOTHING)

    def add(self, topic_id: bytes, index: int) -> None:
        """The log is to be made: when it is needed, or after ``go_on``."""
        left = self._left.setdefault(topic_id, set())
        if index not in left:
            left.add(index)
            self._queue.append((topic_id, index))

    def discard(self, topic_id: bytes, index: int) -> bool:
        """The log is there, or need not be made; True where it was still to be made."""
        left = self._left.get(topic_id)
        if left is None or index not in left:
            return False
        left.remove(index)
        if not left:
            del self._left[topic_id]
        return True

    def give_up(self, topic_id: bytes) -> None:
        """None of the topic's logs is to be made any more."""
        self._left.pop(topic_id, None)

    def make(self, topic_id: bytes, index: int) -> Partition | None:
        """The partition, if its log was still to be made and now is."""
        return self._make(topic_id, index) if self.discard(topic_id, index) else None

    def go_on(self) -> None:
        """Makes all that is left, one log in each turn of the loop."""
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
        """Until ``go_on`` only those logs are made that are needed."""
        if self._next_turn is not None:
            self._next_turn.cancel()
            self._next_turn = None

    def close(self) -> None:
        """The broker stops: nothing is made any more."""
        self.pause()
        self._left.clear()

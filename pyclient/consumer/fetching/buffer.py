"""The fetched records of all partitions that were not taken, in the order of their arrival.

All calls hold the consumer's lock. A partition's error waits in the buffer behind the partition's records.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from cy.consume.fetched import Fetched
from pyclient.consumer.fetching.held import to_drop
from pyclient.consumer.subscription import PartitionState
from pyclient.errors import KafkaError


class Failure(NamedTuple):
    """An entry in the buffer for a partition whose fetch failed."""

    state: PartitionState
    turn: int
    error: KafkaError
    size: int = 0


class Buffer:
    """Records and failures, which are ``size`` bytes in total. ``heads`` has the oldest first."""

    def __init__(self) -> None:
        self.heads: deque[Fetched | Failure] = deque()
        self.size = 0

    def add(self, fetched: Fetched) -> None:
        """Adds records of ``fetched.state``."""
        state = fetched.state
        fetched.turn = state.turn
        state.buffered += fetched.size
        self.size += fetched.size
        self.heads.append(fetched)

    def add_failure(self, state: PartitionState, error: KafkaError) -> None:
        """Adds an error. Nothing more is fetched of the partition before the error is reported."""
        state.failed = True
        self.heads.append(Failure(state, state.turn, error))

    def drop(self, place: int) -> None:
        """Removes the entry at ``place``."""
        head = self.heads[place]
        del self.heads[place]
        self.size -= head.size
        if head.turn == head.state.turn:
            head.state.buffered -= head.size

    def recount(self) -> None:
        """Computes ``size`` again, because a signal handler's exception may have ended a ``take`` between two of its
        steps.
        """
        self.size = sum(head.size for head in self.heads)

    def make_room(self, states: Iterable[PartitionState], limit: int) -> None:
        """Drops records of paused partitions, so that other partitions can be fetched."""
        if self.size <= limit * 3 // 4:
            return
        dropped = to_drop(states, limit)
        for state in dropped:
            state.rewind()
        if dropped:
            self.heads = deque(head for head in self.heads if head.turn == head.state.turn)
            self.recount()

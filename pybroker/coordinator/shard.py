"""What a coordinator's state machine looks like to the runtime that drives it.

A *shard* holds the state that belongs to one partition of an internal topic. It knows no log, no
loop and no clock. The runtime hands it an event (a request, a timer) with the moment, and gets a
``Result``: the records to write, and who is to be told what. Records that have been written come
back by ``replay``, live as well as when a partition is loaded.

**Rule**: what a client may rely on later (an offset, an assignment, that a group is gone) changes
in ``replay`` only. So nothing has to be taken back when a write is refused: it has not happened,
and every reply of the event becomes the error instead. What an event changed besides (who has
joined, who waits) is soft state, as in Kafka; where that must not stay, the event says in
``Result.on_failure`` what follows from the refusal.

A *token* stands for somebody who waits for a reply. To the shard it is an opaque object that it
may keep and has to answer once; in a broker it is a future, in a test anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from pybroker.coordinator.timer_wheel import TimerWheel
from pyclient.protocol.errors import KafkaError

Token = object


class Moment(NamedTuple):
    """When an event happens, in milliseconds: by the wall for what is stored, else monotonic."""

    wall_ms: int
    monotonic_ms: int


class Record(NamedTuple):
    """What a coordinator writes: None as the value deletes the key."""

    key: bytes
    value: bytes | None


class Reply(NamedTuple):
    """The answer for one token: a response, or the KafkaError that takes its place."""

    token: Token
    response: Any


Failure = Callable[["Result", KafkaError], None]


class Result:
    """What one event at ``now`` brings about; filled by the shard, carried out by the runtime.

    ``token`` is that of the request which the event is, None if it is none.
    """

    __slots__ = ("atomic", "now", "on_failure", "reads", "records", "replies", "token")

    def __init__(self, now: Moment, token: Token | None = None) -> None:
        self.now = now
        self.token = token
        self.records: list[Record] = []
        self.replies: list[Reply] = []
        self.atomic = True
        """False where the records may be split over several batches."""
        self.reads = False
        """The replies tell durable state: they wait for everything that has been written so far."""
        self.on_failure: Failure | None = None
        """Called with a new result and the error if the records could not be written."""

    def answer(self, response: Any) -> None:
        """Answers the request."""
        self.reply(self.token, response)

    def reply(self, token: Token | None, response: Any) -> None:
        """Answers ``token``; nothing to do where nobody waits (None)."""
        if token is not None:
            self.replies.append(Reply(token, response))

    def write(self, *records: Record) -> None:
        """Adds records to be written."""
        self.records += records


Event = Callable[[Result], None]


class Shard(Protocol):
    """The state machine of one partition."""

    timers: TimerWheel[Event]

    def replay(self, record: Record) -> None:
        """Takes over what a written record says. The only way in which durable state changes."""
        ...

    def loaded(self, result: Result) -> None:
        """Everything that the log holds has been replayed; from now on events come."""
        ...

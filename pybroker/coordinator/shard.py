"""The interface between a coordinator's state machine and the runtime that runs it.

A *shard* has the state of one partition of an internal topic. It knows no log, no loop and no clock. The runtime gives
it an event (a request, a timer) with the time, and gets a ``Result``: the records to write, and the replies to send.
Written records come back by ``replay``, while running as well as when a partition is loaded.

**Rule**: state on which clients rely later (an offset, an assignment, the end of a group) changes only in ``replay``.
So a refused write leaves nothing to undo, and every reply of the event becomes the error. Other changes (which members
have joined, which wait) are in memory only, as in Kafka. If they must not stay after a refusal, the event sets
``Result.on_failure``.

**Rule**: an event that raises has changed nothing and answers only its own request. So events make all checks that may
raise before they take tokens or change anything. ``Result.on_failure`` undoes earlier changes.

Records may belong to a transaction (``Result.producer``). They are written as a transactional batch and come back by
``replay`` with that producer. They take effect when ``replay_marker`` reports that the transaction was committed. Both
calls come in the order of the log, while running as well as when a partition is loaded.

An *effect* is an action outside of the shard that follows from an event once its records are durable
(``Result.effects``): for example, sending markers. The runtime passes it to its owner's ``perform``. A shard that is
loaded again must find out in ``loaded`` which effects are still due.

A *token* stands for a request that waits for a reply. For the shard it is an opaque object that it may keep and must
answer once. In a broker it is a future, in a test any object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from pybroker.coordinator.timer_wheel import TimerWheel
from pyclient.protocol.errors import KafkaError

Token = object


class Moment(NamedTuple):
    """The time of an event in milliseconds: wall clock for what is stored, monotonic for the rest."""

    wall_ms: int
    monotonic_ms: int


class Record(NamedTuple):
    """A record of a coordinator; None as the value deletes the key."""

    key: bytes
    value: bytes | None


class Producer(NamedTuple):
    """A producer, to whose transaction records belong."""

    id: int
    epoch: int


class Reply(NamedTuple):
    """The answer for one token: a response or a KafkaError."""

    token: Token
    response: Any


Failure = Callable[["Result", KafkaError], None]


class Result:
    """The result of one event at ``now``: the shard fills it, the runtime carries it out.

    ``token`` is that of the event's request, None if the event is not a request.
    """

    __slots__ = (
        "atomic",
        "effects",
        "now",
        "on_failure",
        "producer",
        "reads",
        "records",
        "replies",
        "token",
    )

    def __init__(self, now: Moment, token: Token | None = None) -> None:
        self.now = now
        self.token = token
        self.records: list[Record] = []
        self.replies: list[Reply] = []
        self.producer: Producer | None = None
        """If set, the records are written as one batch of this producer's transaction."""
        self.effects: list[object] = []
        """What the runtime's owner must do once the records are durable, in this order."""
        self.atomic = True
        """False if the records may be split over several batches."""
        self.reads = False
        """True if replies and effects show durable state: then they wait for everything written so far."""
        self.on_failure: Failure | None = None
        """Called with a new result and the error if the records could not be written, or if the event raised after
        setting this. It undoes the event's changes.
        """

    def answer(self, response: Any) -> None:
        """Answers the request."""
        self.reply(self.token, response)

    def reply(self, token: Token | None, response: Any) -> None:
        """Answers ``token``; does nothing if there is no waiter (None)."""
        if token is not None:
            self.replies.append(Reply(token, response))

    def write(self, *records: Record) -> None:
        """Adds records to be written."""
        self.records += records


Event = Callable[[Result], None]


class Shard(Protocol):
    """The state machine of one partition."""

    timers: TimerWheel[Event]
    unordered: frozenset[bytes]
    """The record types (the first two bytes of a key) whose relative order does not matter: only the last record of
    each key counts. Loading skips their superseded values, except in transactions.
    """

    def replay(self, record: Record, producer: Producer | None) -> None:
        """Changes the state by a written record; ``producer`` is set if it belongs to that producer's transaction.

        Only this method and ``replay_marker`` change durable state. If the record does not belong to this shard, it may
        raise any error before it has changed anything; the record is then skipped.
        """
        ...

    def replay_marker(self, producer: Producer, committed: bool) -> None:
        """Ends the producer's transaction: its records count if it was committed."""
        ...

    def loaded(self, result: Result) -> None:
        """Called when the whole log was replayed; events follow."""
        ...

"""What a coordinator's state machine looks like to the runtime that drives it.

A *shard* holds the state that belongs to one partition of an internal topic. It knows no log, no loop and no clock.
The runtime hands it an event (a request, a timer) with the time, and gets a ``Result``: the records to write, and the
replies to send. Records that have been written come back by ``replay``, live as well as when a partition is loaded.

**Rule**: state that clients rely on later (an offset, an assignment, the end of a group) changes only in ``replay``.
So a refused write leaves nothing to undo: it has not happened, and every reply of the event becomes the error. Other
changes of an event (which members have joined, which wait) are kept in memory only, as in Kafka. If they must not
stay, the event defines in ``Result.on_failure`` what follows from the refusal.

**Rule**: an event that raises has changed nothing and answers only its own request. So events check everything that
may raise before they take tokens or change anything. Earlier changes are undone in ``Result.on_failure``.

Records may belong to a transaction (``Result.producer``). They are written as a transactional batch and come back by
``replay`` with that producer. They count when ``replay_marker`` says that its transaction has been committed. That
holds live and when loading, in the order of the log.

An *effect* is an action outside of the shard that follows from an event once its records are safe
(``Result.effects``): for example, markers to send. The runtime hands it to its owner's ``perform``. A shard that is
loaded again has to find out in ``loaded`` which effects are still due.

A *token* stands for a request that waits for a reply. To the shard it is an opaque object that it may keep and has to
answer once. In a broker it is a future, in a test any object.
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


class Producer(NamedTuple):
    """Whose transaction records belong to."""

    id: int
    epoch: int


class Reply(NamedTuple):
    """The answer for one token: a response, or the KafkaError that takes its place."""

    token: Token
    response: Any


Failure = Callable[["Result", KafkaError], None]


class Result:
    """What one event at ``now`` brings about; filled by the shard, carried out by the runtime.

    ``token`` is that of the request which the event is, None if it is none.
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
        """The records are written as one batch of this producer's transaction."""
        self.effects: list[object] = []
        """What the runtime's owner has to do once the records are durable, in this order."""
        self.atomic = True
        """False where the records may be split over several batches."""
        self.reads = False
        """Replies and effects tell durable state: they wait for everything that has been written
        so far.
        """
        self.on_failure: Failure | None = None
        """Called with a new result and the error if the records could not be written, or if the event
        raised after this was set: takes back what it had changed.
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
    """The types of record (first two bytes of the key) of which only the last of each key counts. Their order among
    others does not matter, so loading skips superseded values. Never applied to records of transactions.
    """

    def replay(self, record: Record, producer: Producer | None) -> None:
        """Takes over what a written record says; ``producer``: in that one's transaction.

        Only this method and ``replay_marker`` change durable state. If the record does not belong to this shard, it
        may raise any error before it has changed anything; the record is then skipped.
        """
        ...

    def replay_marker(self, producer: Producer, committed: bool) -> None:
        """The producer's transaction has ended: its records count, or do not."""
        ...

    def loaded(self, result: Result) -> None:
        """Everything that the log holds has been replayed; from now on events come."""
        ...

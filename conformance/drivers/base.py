"""One interface over foreign clients, so that a scenario is written once and holds for each of them.

A ``Driver`` makes producers and consumers. All calls block. One thread uses each client, but several threads may use
the clients of one driver. Settings have Kafka's names, with ``_`` for ``.``, and Kafka's values. The driver translates
them for its client, and omits those that its client lacks. Every driver understands these::

    producer   transactional_id transaction_timeout_ms enable_idempotence acks linger_ms delivery_timeout_ms client_id
               compression_type retries retry_backoff_ms
    consumer   group_id group_protocol group_instance_id group_remote_assignor partition_assignment_strategy
               isolation_level auto_offset_reset enable_auto_commit auto_commit_interval_ms session_timeout_ms
               heartbeat_interval_ms max_poll_interval_ms max_poll_records fetch_min_bytes fetch_max_wait_ms
               max_partition_fetch_bytes metadata_max_age_ms client_rack client_id

``partition_assignment_strategy`` is one of ``range``, ``roundrobin``, ``sticky``, ``cooperative-sticky``. With
``group_protocol`` ``consumer``, drivers omit it, ``session_timeout_ms`` and ``heartbeat_interval_ms``, because the
broker decides them.

Errors are of four kinds, whatever the client calls them. ``Fenced``: another client took the transactional id or the
instance id; give up. ``MustAbort``: abort the transaction and retry. ``CommitRefused``: the group has evicted this
member. ``Unanswered``: a time-out, so the outcome is unknown. Every other error is a plain ``ClientError``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import NamedTuple, Self

#: A call waits this long for a slow or missing broker.
PATIENCE_S = 90.0


class Place(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


class Record(NamedTuple):
    """A record, as a consumer received it."""

    place: Place
    offset: int
    key: bytes | None
    value: bytes | None


class Sent(NamedTuple):
    """The place of a produced record."""

    place: Place
    offset: int


class Event(NamedTuple):
    """A rebalance listener's call: ``assigned``, ``revoked`` or ``lost``."""

    kind: str
    places: frozenset[Place]


class ClientError(Exception):
    """Raised if a client raised an error; the text holds the client's own words."""


class Fenced(ClientError):
    """Another client took the transactional id or instance id over; this one can do nothing further."""


class MustAbort(ClientError):
    """The transaction cannot be committed; after ``abort`` the producer may go on."""


class CommitRefused(ClientError):
    """The group has gone on without this member: an old generation or epoch, or an unknown member."""


class Unanswered(ClientError):
    """Raised if no answer came in time: the broker may have carried out the request, or not."""


class WokenUp(ClientError):
    """Raised if ``wakeup`` ended the poll."""


class Client(ABC):
    """A client that must be closed."""

    @abstractmethod
    def close(self) -> None:
        """Ends the client; a consumer leaves its group, an open transaction stays open. A second call does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class Consumer(Client):
    """A member of a group, or a reader of partitions of its own choice."""

    #: The rebalance listener's calls so far, oldest first.
    events: list[Event]

    @abstractmethod
    def subscribe(self, topics: Sequence[str]) -> None:
        """Joins the group for these topics, with the next ``poll``."""

    @abstractmethod
    def subscribe_pattern(self, pattern: str) -> None:
        """Joins the group for all topics whose whole name matches; each client matches in its own way.

        ``pattern`` is without ``^`` and ``$`` and of the syntax that Python, Java and RE2 share.
        """

    @abstractmethod
    def assign(self, offsets: Mapping[Place, int]) -> None:
        """Reads these partitions from these offsets (-2: the beginning), without a group's assignment."""

    @abstractmethod
    def poll(self, timeout_s: float = 0.2, limit: int = 500) -> list[Record]:
        """Serves the client and returns at most ``limit`` records; returns nothing after ``timeout_s``.

        Raises:
            WokenUp: ``wakeup`` was called.
            ClientError: an error that the client does not get over by itself.
        """

    @abstractmethod
    def assignment(self) -> set[Place]:
        """Returns the partitions that the consumer holds now."""

    @abstractmethod
    def seek(self, place: Place, offset: int) -> None:
        """Lets the next ``poll`` read this partition from ``offset``; the partition must be assigned."""

    @abstractmethod
    def position(self, place: Place) -> int:
        """Returns the offset of the next record that ``poll`` will return."""

    @abstractmethod
    def commit(self, offsets: Mapping[Place, int] | None = None, *, asynchronous: bool = False) -> None:
        """Commits these offsets, or by default the positions of all assigned partitions; without positions it does
        nothing.

        Raises (not if ``asynchronous``):
            CommitRefused, Unanswered, ClientError
        """

    @abstractmethod
    def committed(self, places: Iterable[Place]) -> dict[Place, int]:
        """Returns the group's committed offsets; -1 if there is none."""

    @abstractmethod
    def wakeup(self) -> None:
        """Ends the waiting ``poll``, or the next one, with ``WokenUp``; another thread calls it."""


class Producer(Client):
    """A producer; ``transactional_id`` makes it transactional."""

    @abstractmethod
    def init_transactions(self) -> None:
        """Claims the transactional id: ends an earlier producer's transaction and fences that producer.

        Raises:
            Unanswered, Fenced, ClientError
        """

    @abstractmethod
    def begin(self) -> None:
        """Begins a transaction."""

    @abstractmethod
    def send(self, topic: str, value: bytes | None, *, key: bytes | None = None, partition: int | None = None) -> None:
        """Hands a record to the client and does not wait for its ack.

        Raises:
            Fenced, MustAbort, ClientError: the error of an earlier record, if the client raises it here.
        """

    @abstractmethod
    def flush(self) -> list[Sent]:
        """Waits for the acks of all records since the last ``flush``; returns them in the order of ``send``.

        Raises:
            Fenced, MustAbort, Unanswered, ClientError: a record was not acked.
        """

    @abstractmethod
    def send_offsets(self, consumer: Consumer, offsets: Mapping[Place, int]) -> None:
        """Adds the offsets to the transaction for ``consumer``, a client of the same driver.

        Raises:
            Fenced, MustAbort, CommitRefused, Unanswered, ClientError
        """

    @abstractmethod
    def commit(self) -> None:
        """Sends the waiting records and commits the transaction.

        Raises:
            MustAbort: it is not committed; ``abort`` is due.
            Fenced, Unanswered, ClientError: it may be committed or not.
        """

    @abstractmethod
    def abort(self) -> None:
        """Aborts the transaction.

        Raises:
            Fenced, Unanswered, ClientError
        """


class Driver(Client):
    """A foreign client library with its runtime (a JVM, an event loop)."""

    name: str
    #: Allowed values of ``group_protocol``.
    group_protocols: tuple[str, ...] = ("classic",)
    #: The values of ``partition_assignment_strategy`` that the client supports.
    strategies: tuple[str, ...] = ("range", "roundrobin", "sticky")
    #: Says whether ``Consumer.wakeup`` works.
    wakes = False

    @abstractmethod
    def producer(self, bootstrap: str, **settings: object) -> Producer:
        """Makes a producer, by default an idempotent one with acks=all."""

    @abstractmethod
    def consumer(self, bootstrap: str, **settings: object) -> Consumer:
        """Makes a consumer, by default from the beginning and without auto commit."""

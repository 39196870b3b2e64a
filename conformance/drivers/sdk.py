"""Our own client library behind the common interface: the blocking clients, used only by their public names.

The foreign clients are witnesses, ours is under test. A scenario that they pass and ours fails shows a fault of ours.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyclient
from conformance.drivers import reaching
from conformance.drivers.base import (
    PATIENCE_S,
    ClientError,
    CommitRefused,
    Consumer,
    Driver,
    Event,
    Fenced,
    MustAbort,
    Place,
    Producer,
    Record,
    Sent,
    Unanswered,
    WokenUp,
)
from pyclient import errors

BOTH = {
    "reconnect_backoff_ms": 10,
    "reconnect_backoff_max_ms": 100,
    "retry_backoff_ms": 10,
    "retry_backoff_max_ms": 100,
    "default_api_timeout_ms": int(PATIENCE_S * 1000),
}
PRODUCER = {**BOTH, "linger_ms": 0, "max_block_ms": int(PATIENCE_S * 1000)}
CONSUMER = {**BOTH, "auto_offset_reset": "earliest", "enable_auto_commit": False, "fetch_max_wait_ms": 50}
FENCED = {"PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "FENCED_INSTANCE_ID"}
REFUSED = {
    "COMMIT_FAILED",
    "ILLEGAL_GENERATION",
    "UNKNOWN_MEMBER_ID",
    "REBALANCE_IN_PROGRESS",
    "STALE_MEMBER_EPOCH",
    "FENCED_MEMBER_EPOCH",
}
#: A producer raises these for a transaction that it does not commit.
ABORTABLE = {
    "TRANSACTION_ERROR",
    "TRANSACTION_ABORTED",
    "TRANSACTION_ABORTABLE",
    "OUT_OF_ORDER_SEQUENCE_NUMBER",
    "UNKNOWN_PRODUCER_ID",
    "INVALID_PRODUCER_ID_MAPPING",
}


def translated(error: BaseException) -> ClientError:
    """Translates our error into the common one."""
    names = {getattr(each, "name", "") for each in (error, error.__cause__)}
    text = f"{type(error).__name__}: {error}"
    if names & FENCED:
        return Fenced(text)
    if isinstance(error, errors.WakeupError):
        return WokenUp(text)
    if names & REFUSED:
        return CommitRefused(text)
    if names & ABORTABLE:
        return MustAbort(text)
    if isinstance(error, TimeoutError) or getattr(error, "retriable", False):
        return Unanswered(text)
    return ClientError(text)


@contextlib.contextmanager
def common() -> Iterator[None]:
    """Raises the common errors instead of ours."""
    try:
        yield
    except (errors.KafkaError, TimeoutError) as error:
        raise translated(error) from error


def given(settings: Mapping[str, object]) -> dict[str, object]:
    """Returns the settings that have a value."""
    return {key: value for key, value in settings.items() if value is not None}


class PyclientDriver(Driver):
    name = "pyclient"
    group_protocols = ("classic", "consumer")
    strategies = ("range", "roundrobin", "sticky", "cooperative-sticky")
    wakes = True

    def producer(self, bootstrap: str, **settings: object) -> PyclientProducer:
        return PyclientProducer({**PRODUCER, **reaching.pyclient(bootstrap), **given(settings)})

    def consumer(self, bootstrap: str, **settings: object) -> PyclientConsumer:
        return PyclientConsumer({**CONSUMER, **reaching.pyclient(bootstrap), **given(settings)})

    def close(self) -> None:
        """Closes nothing, because the driver holds nothing."""


class PyclientProducer(Producer):
    def __init__(self, settings: dict[str, Any]) -> None:
        self._client = pyclient.Producer(**settings)
        self._reports: list[Any] = []

    def init_transactions(self) -> None:
        with common():
            self._client.init_transactions()

    def begin(self) -> None:
        self._reports.clear()
        with common():
            self._client.begin_transaction()

    def send(self, topic: str, value: bytes | None, *, key: bytes | None = None, partition: int | None = None) -> None:
        with common():
            self._reports.append(self._client.send(topic, value, key, partition=partition))

    def flush(self) -> list[Sent]:
        reports, self._reports = self._reports, []
        with common():
            self._client.flush(PATIENCE_S)
            rows = [report.result(PATIENCE_S) for report in reports]
        return [Sent(Place(row.topic, row.partition), row.offset) for row in rows]

    def send_offsets(self, consumer: Consumer, offsets: Mapping[Place, int]) -> None:
        assert isinstance(consumer, PyclientConsumer)
        with common():
            self._client.send_offsets(partitions(offsets), consumer.metadata())

    def commit(self) -> None:
        with common():
            self._client.commit_transaction()
        self._reports.clear()

    def abort(self) -> None:
        with common():
            self._client.abort_transaction()
        self._reports.clear()

    def close(self) -> None:
        with contextlib.suppress(errors.KafkaError, TimeoutError):
            self._client.close(timeout=10)


class PyclientConsumer(Consumer):
    def __init__(self, settings: dict[str, Any]) -> None:
        self.events = []
        self._client = pyclient.Consumer(**settings)

    def metadata(self) -> Any:
        """Returns the consumer's identity in its group."""
        return self._client.group_metadata()

    def subscribe(self, topics: Sequence[str]) -> None:
        with common():
            self._client.subscribe(list(topics), listener=Listener(self.events))

    def subscribe_pattern(self, pattern: str) -> None:
        with common():
            self._client.subscribe(re.compile(pattern), listener=Listener(self.events))

    def assign(self, offsets: Mapping[Place, int]) -> None:
        with common():
            self._client.assign(list(partitions(offsets)))
            for partition, offset in partitions(offsets).items():
                if offset >= 0:
                    self._client.seek(partition, offset)
                else:
                    self._client.seek_to_beginning([partition])

    def poll(self, timeout_s: float = 0.2, limit: int = 500) -> list[Record]:
        with common():
            records = self._client.poll(timeout_s, limit)
        return [Record(Place(row.topic, row.partition), row.offset, row.key, row.value) for row in records]

    def assignment(self) -> set[Place]:
        return {Place(*partition) for partition in self._client.assignment()}

    def seek(self, place: Place, offset: int) -> None:
        with common():
            self._client.seek(pyclient.TopicPartition(*place), offset)

    def position(self, place: Place) -> int:
        with common():
            return self._client.position(pyclient.TopicPartition(*place))

    def commit(self, offsets: Mapping[Place, int] | None = None, *, asynchronous: bool = False) -> None:
        rows = None if offsets is None else partitions(offsets)
        with common():
            if asynchronous:
                self._client.commit_async(rows)
            else:
                self._client.commit(rows)

    def committed(self, places: Iterable[Place]) -> dict[Place, int]:
        asked = [pyclient.TopicPartition(*place) for place in places]
        with common():
            found = self._client.committed(asked)
        return {Place(*partition): -1 if row is None else row.offset for partition, row in found.items()}

    def wakeup(self) -> None:
        self._client.wakeup()

    def close(self) -> None:
        with contextlib.suppress(errors.KafkaError, TimeoutError):
            self._client.close(timeout=10)


def partitions(offsets: Mapping[Place, int]) -> dict[pyclient.TopicPartition, int]:
    """Translates offsets to our own partitions."""
    return {pyclient.TopicPartition(*place): offset for place, offset in offsets.items()}


class Listener:
    """Records the calls that it gets."""

    def __init__(self, events: list[Event]) -> None:
        self._events = events

    def on_partitions_revoked(self, revoked: Collection[pyclient.TopicPartition]) -> None:
        self._note("revoked", revoked)

    def on_partitions_assigned(self, assigned: Collection[pyclient.TopicPartition]) -> None:
        self._note("assigned", assigned)

    def on_partitions_lost(self, lost: Collection[pyclient.TopicPartition]) -> None:
        self._note("lost", lost)

    def _note(self, kind: str, rows: Collection[pyclient.TopicPartition]) -> None:
        self._events.append(Event(kind, frozenset(Place(*row) for row in rows)))

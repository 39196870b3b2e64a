"""Adapts librdkafka, through confluent-kafka, to the common interface."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, TopicPartition

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
)
from harness.clients import librdkafka
from pyclient.keywords import with_dots

#: librdkafka reconnects at once. It must keep the brokers that it knows, or it hangs in ``send_offsets_to_transaction``
#: after the only broker restarts (2.16).
BOTH = {
    "metadata.recovery.strategy": "none",
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 200,
    "log_level": 0,
}
PRODUCER = {**BOTH, "enable.idempotence": True, "acks": "all", "linger.ms": 1, "retry.backoff.ms": 10}
CONSUMER = {
    **BOTH,
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "fetch.wait.max.ms": 50,
    "fetch.queue.backoff.ms": 5,
    "check.crcs": True,
    "enable.partition.eof": True,
}
#: Kafka's names of settings, with librdkafka's.
NAMES = {"fetch.max.wait.ms": "fetch.wait.max.ms", "metadata.max.age.ms": "topic.metadata.refresh.interval.ms"}
UNKNOWN = {"max.poll.records"}
#: The broker decides these in the new group protocol.
CLASSIC_ONLY = {"session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy"}
FENCED = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}
FENCED |= {KafkaError.FENCED_INSTANCE_ID}
REFUSED = {
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.FENCED_MEMBER_EPOCH,
    KafkaError.STALE_MEMBER_EPOCH,
}
UNANSWERED = {KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError.REQUEST_TIMED_OUT}
UNANSWERED |= {KafkaError._MSG_TIMED_OUT, KafkaError._PURGE_INFLIGHT, KafkaError._PURGE_QUEUE}
#: librdkafka recovers from these errors of ``poll`` by itself.
PASSING = {KafkaError._MAX_POLL_EXCEEDED, KafkaError.UNKNOWN_TOPIC_OR_PART}


def translated(error: KafkaError) -> ClientError:
    """Translates librdkafka's error into the common one."""
    text = f"{error.name()}: {error.str()}"
    if error.code() in FENCED:
        return Fenced(text)
    if error.txn_requires_abort():
        return MustAbort(text)
    if error.code() in REFUSED:
        return CommitRefused(text)
    if error.code() in UNANSWERED:
        return Unanswered(text)
    return ClientError(text)


MOVED = (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
"""Kafka's table calls these errors retriable; librdkafka does so for some calls only."""


def insist(call: Callable[[float], Any]) -> Any:
    """Repeats calls with a time-out while the error is retriable."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return call(max(0.1, deadline - time.monotonic()))
        except KafkaException as raised:
            error = raised.args[0]
            may_help = error.retriable() or error.code() in MOVED
            if not may_help or error.txn_requires_abort() or time.monotonic() > deadline:
                raise translated(error) from raised
            time.sleep(0.02)


def dotted(settings: Mapping[str, object]) -> dict[str, object]:
    """Translates settings to librdkafka's names."""
    found = with_dots(settings)
    new = found.get("group.protocol") == "consumer"
    if found.get("auto.offset.reset") == "none":
        found["auto.offset.reset"] = "error"
    dropped = UNKNOWN | (CLASSIC_ONLY if new else set())
    return {NAMES.get(key, key): value for key, value in found.items() if key not in dropped}


class ConfluentDriver(Driver):
    name = "confluent"
    group_protocols = ("classic", "consumer")
    strategies = ("range", "roundrobin", "cooperative-sticky")

    def producer(self, bootstrap: str, **settings: object) -> ConfluentProducer:
        return ConfluentProducer({**PRODUCER, **reaching.librdkafka(bootstrap), **dotted(settings)})

    def consumer(self, bootstrap: str, **settings: object) -> ConfluentConsumer:
        values = {"group.id": "unused", **CONSUMER, **reaching.librdkafka(bootstrap), **dotted(settings)}
        return ConfluentConsumer(values)

    def close(self) -> None:
        """Closes nothing, because the driver holds nothing."""


class ConfluentProducer(Producer):
    def __init__(self, settings: dict[str, Any]) -> None:
        self._client = confluent_kafka.Producer(settings)
        self._reports: list[Sent | KafkaError] = []

    def init_transactions(self) -> None:
        insist(self._client.init_transactions)

    def begin(self) -> None:
        self._reports.clear()
        insist(lambda _: self._client.begin_transaction())

    def send(self, topic: str, value: bytes | None, *, key: bytes | None = None, partition: int | None = None) -> None:
        place = len(self._reports)
        self._reports.append(KafkaError(KafkaError._IN_PROGRESS))

        def report(error: KafkaError | None, message: confluent_kafka.Message) -> None:
            if place >= len(self._reports):
                return
            where = Place(topic, message.partition())  # type: ignore[arg-type]
            self._reports[place] = error or Sent(where, message.offset())  # type: ignore[arg-type]

        options: dict[str, Any] = {} if partition is None else {"partition": partition}
        try:
            self._client.produce(topic, value, key, on_delivery=report, **options)
        except KafkaException as raised:
            raise translated(raised.args[0]) from raised
        self._serve(0)

    def _serve(self, timeout_s: float) -> None:
        try:
            self._client.poll(timeout_s)
        except KafkaException as raised:
            raise translated(raised.args[0]) from raised

    def _drain(self) -> int:
        """Waits for all reports; returns how many are missing.

        librdkafka's own flush would call ``report`` while the exception of a fatal error is set, and spoil the
        interpreter; ``poll`` raises it at once.
        """
        deadline = time.monotonic() + PATIENCE_S
        while len(self._client) and time.monotonic() < deadline:
            self._serve(0.05)
        return len(self._client)

    def flush(self) -> list[Sent]:
        left = self._drain()
        reports, self._reports = self._reports, []
        sent = [report for report in reports if isinstance(report, Sent)]
        if left:
            raise Unanswered(f"{left} records were not acked within {PATIENCE_S} s")
        for report in reports:
            if isinstance(report, KafkaError):
                raise translated(report)
        return sent

    def send_offsets(self, consumer: Consumer, offsets: Mapping[Place, int]) -> None:
        assert isinstance(consumer, ConfluentConsumer)
        rows = [TopicPartition(*place, offset) for place, offset in offsets.items()]
        insist(lambda left: self._client.send_offsets_to_transaction(rows, consumer.metadata(), left))

    def commit(self) -> None:
        self._drain()
        insist(self._client.commit_transaction)
        self._reports.clear()

    def abort(self) -> None:
        insist(self._client.abort_transaction)
        self._reports.clear()

    def close(self) -> None:
        with contextlib.suppress(KafkaException, ClientError):
            self._client.purge()
            self._drain()


class ConfluentConsumer(Consumer):
    def __init__(self, settings: dict[str, Any]) -> None:
        self.events = []
        self._client = librdkafka.Consumer(settings)
        self._closed = False
        #: ``poll`` continues here while librdkafka reports no position: it counts neither markers nor a start.
        self._places: dict[Place, int] = {}

    def metadata(self) -> object:
        """Returns the group metadata that ``send_offsets_to_transaction`` needs."""
        return self._client.consumer_group_metadata()

    def _heard(self, kind: str) -> Callable[[object, list[TopicPartition]], None]:
        def note(_: object, rows: list[TopicPartition]) -> None:
            self.events.append(Event(kind, frozenset(Place(row.topic, row.partition) for row in rows)))

        return note

    def subscribe(self, topics: Sequence[str]) -> None:
        listener = {f"on_{name}": self._heard(kind) for name, kind in LISTENER.items()}
        self._client.subscribe(list(topics), **listener)

    def subscribe_pattern(self, pattern: str) -> None:
        self.subscribe([f"^{pattern}$"])

    def assign(self, offsets: Mapping[Place, int]) -> None:
        self._client.assign([TopicPartition(*place, offset) for place, offset in offsets.items()])
        self._places = dict(offsets)

    def poll(self, timeout_s: float = 0.2, limit: int = 500) -> list[Record]:
        first = self._client.poll(timeout_s)
        if first is None:
            return []
        heard = len(self.events)
        more = self._client.consume(limit - 1, 0) if limit > 1 else []
        gone = {place for event in self.events[heard:] if event.kind != "assigned" for place in event.places}
        head, *rest = map(self._record, [first, *more])
        # The second call revoked the partition: another member holds it by now.
        if head is not None and head.place in gone:
            head = None
        return [row for row in (head, *rest) if row is not None]

    def _record(self, message: Any) -> Record | None:
        error = message.error()
        if error is None:
            return Record(
                Place(message.topic(), message.partition()), message.offset(), message.key(), message.value()
            )
        if error.code() == KafkaError._PARTITION_EOF:
            self._places[Place(message.topic(), message.partition())] = message.offset()
            return None
        if error.retriable() or error.code() in PASSING:
            return None
        raise translated(error)

    def assignment(self) -> set[Place]:
        return {Place(row.topic, row.partition) for row in self._client.assignment()}

    def seek(self, place: Place, offset: int) -> None:
        insist(lambda _: self._client.seek(TopicPartition(*place, offset)))
        self._places[place] = offset

    def position(self, place: Place) -> int:
        known = int(self._client.position([TopicPartition(*place)])[0].offset)
        return max(known, self._places.get(place, -1))

    def commit(self, offsets: Mapping[Place, int] | None = None, *, asynchronous: bool = False) -> None:
        options: dict[str, Any] = {"asynchronous": asynchronous}
        if offsets is not None:
            options["offsets"] = [TopicPartition(*place, offset) for place, offset in offsets.items()]
        try:
            rows = self._client.commit(**options)
        except KafkaException as raised:
            # Nothing was read since the last commit; other clients raise no error here.
            if raised.args[0].code() == KafkaError._NO_OFFSET:
                return
            raise translated(raised.args[0]) from raised
        for row in rows or ():
            if row.error is not None:
                raise translated(row.error)

    def committed(self, places: Iterable[Place]) -> dict[Place, int]:
        asked = [TopicPartition(*place) for place in places]
        rows = insist(lambda left: self._client.committed(asked, timeout=left))
        return {Place(row.topic, row.partition): max(-1, row.offset) for row in rows}

    def wakeup(self) -> None:
        raise NotImplementedError("librdkafka's poll cannot be woken")

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._client.close()


LISTENER = {"assign": "assigned", "revoke": "revoked", "lost": "lost"}

"""Runs Kafka's own Java clients, all in one JVM, which the first of them starts."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from conformance import drivers
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
from harness.clients.jvm import Jvm, JvmError
from pyclient.keywords import key_with_dots

STRATEGIES = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}
#: The broker decides these in the new protocol, and the client refuses them.
CLASSIC_ONLY = ("session_timeout_ms", "heartbeat_interval_ms", "partition_assignment_strategy")
PRODUCER = {
    "acks": "all",
    "linger.ms": "0",
    "max.block.ms": str(int(PATIENCE_S * 1000)),
    "reconnect.backoff.ms": "10",
    "reconnect.backoff.max.ms": "100",
    "retry.backoff.ms": "10",
    "retry.backoff.max.ms": "100",
}
CONSUMER = {
    "auto.offset.reset": "earliest",
    "enable.auto.commit": "false",
    "fetch.max.wait.ms": "50",
    "default.api.timeout.ms": str(int(PATIENCE_S * 1000)),
    "reconnect.backoff.ms": "10",
    "reconnect.backoff.max.ms": "100",
    "retry.backoff.ms": "10",
    "retry.backoff.max.ms": "100",
}
FENCED = {"ProducerFencedException", "FencedInstanceIdException"}
REFUSED = {
    "CommitFailedException",
    "IllegalGenerationException",
    "UnknownMemberIdException",
    "RebalanceInProgressException",
    "StaleMemberEpochException",
    "FencedMemberEpochException",
}
#: A client raises these for a transaction that it refuses or fails to commit.
ABORTABLE = {
    "TransactionAbortableException",
    "InvalidProducerEpochException",
    "OutOfOrderSequenceException",
    "UnknownProducerIdException",
    "InvalidPidMappingException",
}


class JavaDriver(Driver):
    """Makes the clients of kafka-clients 4.4.0."""

    name = "java"
    group_protocols = ("classic", "consumer")
    strategies = ("range", "roundrobin", "sticky", "cooperative-sticky")
    wakes = True

    def __init__(self) -> None:
        self._jvm: Jvm | None = None
        self._lock = threading.Lock()
        self._names = itertools.count(1)

    @property
    def jvm(self) -> Jvm:
        """Returns the JVM that runs all clients and Kafka's tools."""
        with self._lock:
            if self._jvm is None:
                self._jvm = Jvm()
            return self._jvm

    def producer(self, bootstrap: str, **settings: object) -> JavaProducer:
        name = f"producer-{next(self._names)}"
        return JavaProducer(self.jvm, name, {**PRODUCER, **dotted(bootstrap, settings)})

    def consumer(self, bootstrap: str, **settings: object) -> JavaConsumer:
        if settings.get("group_protocol") == "consumer":
            settings = {key: settings[key] for key in settings if key not in CLASSIC_ONLY}
        strategy = settings.get("partition_assignment_strategy")
        if strategy is not None:
            assignor = f"org.apache.kafka.clients.consumer.{STRATEGIES[str(strategy)]}"
            settings = {**settings, "partition_assignment_strategy": assignor}
        name = f"consumer-{next(self._names)}"
        return JavaConsumer(self.jvm, name, {**CONSUMER, **dotted(bootstrap, settings)})

    def close(self) -> None:
        with self._lock:
            if self._jvm is not None:
                self._jvm.close()
                self._jvm = None


def opened() -> JavaDriver:
    """Returns this process's driver."""
    driver = drivers.opened("java")
    assert isinstance(driver, JavaDriver)
    return driver


def dotted(bootstrap: str, settings: Mapping[str, object]) -> dict[str, str]:
    """Translates settings for Kafka's clients."""
    found = {key_with_dots(key): _text(settings[key]) for key in settings if settings[key] is not None}
    return {**reaching.java(bootstrap), **found}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _rows(offsets: Mapping[Place, int]) -> list[list[object]]:
    return [[place.topic, place.partition, offsets[place]] for place in offsets]


def _pairs(places: Iterable[Place]) -> list[list[object]]:
    return [[place.topic, place.partition] for place in places]


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode("latin-1")


def _str(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1")


class _Remote:
    """A client that lives in the JVM."""

    def __init__(self, jvm: Jvm, name: str, kind: str, config: Mapping[str, str]) -> None:
        self._jvm = jvm
        self._name = name
        self._open = False
        self.events: list[Event] = []
        self._call(kind, **config)
        self._open = True

    def _call(self, call: str, **arguments: object) -> Any:
        answer = self._jvm.ask(call, self._name, **arguments)
        for kind, pairs in answer.events:
            self.events.append(Event(kind, frozenset(Place(*pair) for pair in pairs)))
        if answer.error is not None:
            raise self._translated(answer.error, call) from answer.error
        return answer.result

    def _translated(self, error: JvmError, call: str) -> ClientError:
        names = set(error.errors)
        if names & FENCED:
            return Fenced(str(error))
        if names & REFUSED:
            return CommitRefused(str(error))
        if "WakeupException" in names:
            return WokenUp(str(error))
        return self._other(error, call)

    def _other(self, error: JvmError, call: str) -> ClientError:
        late = error.errors[0] in ("TimeoutException", "NoAnswer")
        return Unanswered(str(error)) if late else ClientError(str(error))

    def close(self) -> None:
        if self._open:
            self._open = False
            with contextlib.suppress(ClientError):
                self._call("close", timeout_ms=10_000)


class JavaProducer(_Remote, Producer):
    """Drives ``org.apache.kafka.clients.producer.KafkaProducer``."""

    def __init__(self, jvm: Jvm, name: str, config: dict[str, str]) -> None:
        self._transactional = "transactional.id" in config
        request_ms = int(config.setdefault("request.timeout.ms", "10000"))
        least = request_ms + int(float(config["linger.ms"]))
        wanted = int(config.get("delivery.timeout.ms", PATIENCE_S * 1000))
        config["delivery.timeout.ms"] = str(max(wanted, least))
        super().__init__(jvm, name, "producer", config)

    def _other(self, error: JvmError, call: str) -> ClientError:
        """Returns MustAbort if the transaction lost a record or is in an error state, else the error by its name."""
        if self._transactional and call in ("send", "flush", "send_offsets") and "NoAnswer" not in error.errors:
            return MustAbort(str(error))
        if call == "commit" and (set(error.errors) & ABORTABLE or "TimeoutException" in error.errors[1:]):
            return MustAbort(str(error))
        return super()._other(error, call)

    def init_transactions(self) -> None:
        self._call("init")

    def begin(self) -> None:
        self._call("begin")

    def send(self, topic: str, value: bytes | None, *, key: bytes | None = None, partition: int | None = None) -> None:
        self._call("send", records=[[topic, partition, _str(key), _str(value)]])

    def flush(self) -> list[Sent]:
        return [Sent(Place(topic, partition), offset) for topic, partition, offset in self._call("flush")]

    def send_offsets(self, consumer: Consumer, offsets: Mapping[Place, int]) -> None:
        assert isinstance(consumer, JavaConsumer)
        self._call("send_offsets", consumer=consumer._name, offsets=_rows(offsets))

    def commit(self) -> None:
        self._call("commit")

    def abort(self) -> None:
        self._call("abort")


class JavaConsumer(_Remote, Consumer):
    """Drives ``org.apache.kafka.clients.consumer.KafkaConsumer``."""

    def __init__(self, jvm: Jvm, name: str, config: dict[str, str]) -> None:
        self._new_protocol = config.get("group.protocol") == "consumer"
        super().__init__(jvm, name, "consumer", config)

    def subscribe(self, topics: Sequence[str]) -> None:
        self._call("subscribe", topics=list(topics))

    def subscribe_pattern(self, pattern: str) -> None:
        """The broker matches names in the new protocol (RE2)."""
        self._call("subscribe", **{"regex" if self._new_protocol else "pattern": pattern})

    def assign(self, offsets: Mapping[Place, int]) -> None:
        self._call("assign", partitions=_pairs(offsets))
        self._call("seek", offsets=_rows(offsets))

    def poll(self, timeout_s: float = 0.2, limit: int = 500) -> list[Record]:
        rows = self._call("poll", timeout_ms=int(timeout_s * 1000), limit=limit)
        return [Record(Place(row[0], row[1]), row[2], _bytes(row[3]), _bytes(row[4])) for row in rows]

    def assignment(self) -> set[Place]:
        return {Place(*pair) for pair in self._call("assignment")}

    def seek(self, place: Place, offset: int) -> None:
        self._call("seek", offsets=_rows({place: offset}))

    def position(self, place: Place) -> int:
        found: int = self._call("position", partitions=_pairs([place]))
        return found

    def commit(self, offsets: Mapping[Place, int] | None = None, *, asynchronous: bool = False) -> None:
        more = {} if offsets is None else {"offsets": _rows(offsets)}
        self._call("commit", asynchronous=asynchronous, **more)

    def committed(self, places: Iterable[Place]) -> dict[Place, int]:
        places = list(places)
        rows = self._call("committed", partitions=_pairs(places))
        return dict.fromkeys(places, -1) | {Place(row[0], row[1]): row[2] for row in rows}

    def wakeup(self) -> None:
        self._call("wakeup")

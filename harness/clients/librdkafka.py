"""librdkafka's producers and consumers: in one line each, and with a limit on each wait.

A synchronous ``commit`` of confluent-kafka waits without a limit, and no signal reaches a thread inside it. So it runs
in a thread of its own here. ``close`` may hang while a rebalance is pending, one time in ten on a loaded machine. The
rebalance callback then requests an assignment from librdkafka's main thread, which no longer answers. The callback
holds the interpreter's lock while it waits (2.16). So a consumer unsubscribes first, and gets a callback for that. A
consumer that its group has evicted (``max.poll.interval.ms``) is never closed; it stays until the process ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import confluent_kafka
from confluent_kafka import Message, TopicPartition

from harness.waiting import until
from harness.witnesses import used
from pyclient.keywords import with_dots

T = TypeVar("T")

CLOSE_TIMEOUT_S = 20.0
LEAVE_TIMEOUT_S = 5.0
COMMIT_TIMEOUT_S = 120.0


def within(timeout_s: float, call: Callable[[], T], what: str) -> T:
    """Calls ``call`` on a thread of its own, and returns its result.

    Raises:
        TimeoutError: the call did not end in time; its thread continues alone.
    """
    outcome: list[Callable[[], T]] = []

    def run() -> None:
        try:
            value = call()
        except BaseException as error:
            raised = error
            outcome.append(lambda: _raise(raised))
        else:
            outcome.append(lambda: value)

    thread = threading.Thread(target=run, name=f"librdkafka-{what}", daemon=True)
    thread.start()
    thread.join(timeout_s)
    if not outcome:
        raise TimeoutError(f"librdkafka's {what} did not end within {timeout_s:.0f} s")
    return outcome[0]()


def _raise(error: BaseException) -> Any:
    raise error


class Consumer(confluent_kafka.Consumer):
    """A ``confluent_kafka.Consumer`` whose ``close`` and ``commit`` return."""

    def __init__(self, settings: dict[str, Any]) -> None:
        used("librdkafka")
        super().__init__(settings)
        self._max_poll_interval_s = int(settings.get("max.poll.interval.ms", 300_000)) / 1_000
        self._is_static = "group.instance.id" in settings
        self._subscribed = False
        self._polled = time.monotonic()

    def subscribe(self, *arguments: Any, **options: Any) -> None:
        """Subscribes, and notes that it has."""
        self._subscribed = True
        super().subscribe(*arguments, **options)

    def poll(self, *arguments: Any, **options: Any) -> Any:
        """Returns the next message, or None."""
        self._polled = time.monotonic()
        return super().poll(*arguments, **options)

    def consume(self, *arguments: Any, **options: Any) -> Any:
        """Returns the next messages."""
        self._polled = time.monotonic()
        return super().consume(*arguments, **options)

    def close(self) -> None:
        """Leaves the group. An evicted consumer is kept forever, because its deallocation would close it."""
        if time.monotonic() - self._polled > self._max_poll_interval_s:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))
            return
        if self._subscribed and not self._is_static:
            self._leave()
        try:
            within(CLOSE_TIMEOUT_S, super().close, "close")
        except TimeoutError as error:
            warnings.warn(str(error), RuntimeWarning, stacklevel=2)

    def _leave(self) -> None:
        """Unsubscribes, and serves the callbacks up to that of the unsubscription."""
        with contextlib.suppress(confluent_kafka.KafkaException, RuntimeError):
            self.unsubscribe()
            deadline = time.monotonic() + LEAVE_TIMEOUT_S
            while (self.poll(0.05) is not None or self.assignment()) and time.monotonic() < deadline:
                pass

    def commit(self, *arguments: Any, **options: Any) -> Any:
        """Commits.

        Raises:
            TimeoutError: a synchronous commit got no answer.
        """
        if options.get("asynchronous", True):
            return super().commit(*arguments, **options)
        return within(COMMIT_TIMEOUT_S, lambda: super(Consumer, self).commit(*arguments, **options), "commit")


class Served(Protocol):
    """A running broker, or several."""

    @property
    def bootstrap(self) -> str:
        """The bootstrap addresses: ``host:port,…``."""


def present(found: T | None) -> T:
    """Returns ``found``, a field that the message must have."""
    assert found is not None
    return found


def producer(broker: Served, **settings: object) -> confluent_kafka.Producer:
    """Returns librdkafka's producer. Settings have ``_`` for ``.``."""
    used("librdkafka")
    dotted = with_dots(settings)
    return confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, **dotted})


class Deliveries:
    """Collects the delivery reports of a producer."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.errors: list[confluent_kafka.KafkaError] = []

    def __call__(self, error: confluent_kafka.KafkaError | None, message: Message) -> None:
        if error is None:
            self.messages.append(message)
        else:
            self.errors.append(error)


def send(client: confluent_kafka.Producer, topic: str, value: bytes, **options: object) -> None:
    """Gives one record to librdkafka. Waits while librdkafka's queue is full, as on a slow machine."""

    def is_taken() -> bool:
        try:
            client.produce(topic, value, **options)  # type: ignore[arg-type]
        except BufferError:
            client.poll(0.1)
            return False
        return True

    until(is_taken, "place in librdkafka's queue", pause_s=0)


def write(
    broker: Served,
    topic: str,
    values: Iterable[bytes],
    *,
    partition: int | None = None,
    keys: Sequence[bytes] | None = None,
    **settings: object,
) -> list[Message]:
    """Writes all values in order, even if librdkafka retries. Returns their delivery reports, none of which has an
    error.
    """
    reports = Deliveries()
    client = producer(broker, **{"acks": "all", "enable_idempotence": True, **settings})
    for place, value in enumerate(values):
        options: dict[str, object] = {} if partition is None else {"partition": partition}
        if keys is not None:
            options["key"] = keys[place]
        send(client, topic, value, on_delivery=reports, **options)
        if place % 10_000 == 9_999:
            client.poll(0.1)
    assert client.flush(60) == 0
    assert not reports.errors
    return reports.messages


@contextmanager
def consumer(broker: Served, group: str = "unused", **settings: object) -> Iterator[confluent_kafka.Consumer]:
    """Returns librdkafka's consumer, which begins at the earliest offset by default."""
    defaults = {"auto.offset.reset": "earliest", "fetch.queue.backoff.ms": 5, "fetch.wait.max.ms": 50}
    defaults |= {"heartbeat.interval.ms": 200, "log_level": 0}
    dotted = with_dots(settings)
    client = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": group, **defaults, **dotted}
    )
    try:
        yield client
    finally:
        client.close()


def take(client: confluent_kafka.Consumer, count: int, timeout_s: float = 90) -> list[Message]:
    """Reads exactly ``count`` messages, or fails."""
    found: list[Message] = []
    deadline = time.monotonic() + timeout_s
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} messages came"
        for message in client.consume(count - len(found), 0.2):
            assert message.error() is None, message.error()
            found.append(message)
    return found


def read(broker: Served, topic: str, count: int, partition: int = 0, offset: int = 0) -> list[Message]:
    """Reads ``count`` messages of one partition."""
    with consumer(broker, enable_auto_commit=False) as client:
        client.assign([TopicPartition(topic, partition, offset)])
        return take(client, count)

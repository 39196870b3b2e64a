"""The work that is measured: producing, consuming, and sending a record from the producer to the consumer."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, islice
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any

from pybroker.cli.bench.measures import Latencies, Measured

if TYPE_CHECKING:
    from pyclient import Consumer, Producer

Tell = Callable[[int], object]
"""A function that is called with the number of records so far."""
DISTINCT = 1000
CHUNK = 1000
SAMPLE_EVERY = 50
POLL_S = 0.5


class Sample:
    """A record whose latency is measured."""

    __slots__ = ("begun", "into")

    def __init__(self, into: Deliveries) -> None:
        self.into = into
        self.begun = time.perf_counter()

    def __call__(self, metadata: Any, error: BaseException | None) -> None:
        self.into.latencies.add(time.perf_counter() - self.begun)
        self.into(metadata, error)


class Deliveries:
    """Counts delivered records, and keeps the first error, if any."""

    def __init__(self) -> None:
        self.latencies = Latencies()
        self.failed = 0
        self.error: BaseException | None = None

    def __call__(self, metadata: Any, error: BaseException | None) -> None:
        if error is not None:
            self.failed += 1
            self.error = self.error or error


def payloads(size: int) -> list[bytes]:
    """Returns values of random letters, the same ones on each call."""
    letters = random.Random(17)
    return ["".join(letters.choices(ascii_uppercase, k=size)).encode() for _ in range(DISTINCT)]


def paced(count: int, rate: float | None) -> Iterator[int]:
    """Yields 0 … ``count`` - 1, at most ``rate`` of them a second."""
    begun = time.perf_counter()
    for number in range(count):
        if rate is not None and (ahead := begun + number / rate - time.perf_counter()) > 0:
            time.sleep(ahead)
        yield number


def produce(
    producer: Producer, topic: str, values: Sequence[bytes], count: int, rate: float | None, tell: Tell
) -> tuple[Measured, Deliveries]:
    """Sends ``count`` records one by one, as an application does. Measures the latency of every 50th record, from
    ``send`` to its acknowledgement; at a low ``rate``, of every record.
    """
    deliveries = Deliveries()
    every = SAMPLE_EVERY if rate is None or rate > 1000 else 1
    source = cycle(values)
    size = 0
    begun = time.perf_counter()
    for number in paced(count, rate):
        value = next(source)
        size += len(value)
        producer.send(topic, value, on_delivery=Sample(deliveries) if number % every == 0 else deliveries)
        if number % CHUNK == 0:
            tell(number)
            if deliveries.failed:
                break
    producer.flush()
    tell(count)
    return Measured("produce", number + 1, size, time.perf_counter() - begun, deliveries.latencies), deliveries


def produce_many(producer: Producer, topic: str, values: Sequence[bytes], count: int, tell: Tell) -> Measured:
    """Sends ``count`` records by ``send_many``, a thousand in a call. Raises the error of a failed delivery."""
    source = cycle(values)
    reports = []
    size = sent = 0
    begun = time.perf_counter()
    while sent < count:
        part = list(islice(source, min(DISTINCT, count - sent)))
        reports.append(producer.send_many(topic, part))
        sent += len(part)
        size += sum(map(len, part))
        tell(sent)
    producer.flush()
    seconds = time.perf_counter() - begun
    for report in reports:
        if report.error is not None:
            raise report.error
    return Measured("produce", sent, size, seconds, Latencies())


def consume(consumer: Consumer, count: int, patience_s: float, tell: Tell) -> Measured:
    """Reads ``count`` records, or fewer if no record comes for ``patience_s``. The clock starts with the poll that
    returns the first record.
    """
    read = size = 0
    begun = last = time.perf_counter()
    while read < count and (now := time.perf_counter()) - last < patience_s:
        values = consumer.poll(POLL_S, count - read).values()
        if values:
            last = time.perf_counter()
            begun = begun if read else now
            read += len(values)
            size += sum(len(value) for value in values if value is not None)
            tell(read)
    return Measured("consume", read, size, last - begun, Latencies())


def there_and_back(
    producer: Producer, consumer: Consumer, topic: str, value: bytes, count: int, rate: float | None, tell: Tell
) -> tuple[Measured, Measured]:
    """Sends one record at a time; measures until its acknowledgement and until its consumption. Raises TimeoutError."""
    acked, consumed = Latencies(), Latencies()
    begun = time.perf_counter()
    for number in paced(count, rate):
        start = time.perf_counter()
        producer.send(topic, value).result(timeout=30)
        acked.add(time.perf_counter() - start)
        if not len(consumer.poll(30)):
            raise TimeoutError("a record that was acknowledged did not come within 30 s")
        consumed.add(time.perf_counter() - start)
        tell(number + 1)
    seconds = time.perf_counter() - begun
    size = count * len(value)
    return Measured("acked", count, size, seconds, acked), Measured("end to end", count, size, seconds, consumed)

"""The third part: measures how long a record takes to be acknowledged, and from end to end."""

from __future__ import annotations

import threading
import time
from typing import NamedTuple

from pybroker.cli.common.verbs import Failure
from pybroker.cli.demo.stage import Bars
from pyclient import Consumer, Producer, TopicPartition

TOPIC = "demo-latency"
LEAST, MOST = 100, 2000
"""The fewest and most records that are measured; between these, a tenth of the streamed records."""
RATE = 1000
"""Records per second, from end to end."""
SIZE = 100
RESULT_S = 30.0
POLL_S = 1.0
MILLION = 1e6


class Latency(NamedTuple):
    """The latencies of the demo, in milliseconds."""

    p50: float
    p99: float


class Latencies(NamedTuple):
    """acked: one record at a time, until acks=all has come. end_to_end: from send to the consumer."""

    acked: Latency
    end_to_end: Latency


def samples(records: int) -> int:
    """Returns how many records to measure after this many were streamed."""
    return min(MOST, max(LEAST, records // 10))


def measure(bootstrap: str, count: int, bars: Bars) -> Latencies:
    """Measures both latencies, with records of 100 bytes and linger.ms=0. Raises KafkaError, Failure."""
    with Producer(bootstrap, linger_ms=0) as producer:
        acked = one_by_one(producer, count, bars)
        end_to_end = at_a_rate(bootstrap, producer, count, bars)
    return Latencies(percentiles(acked), percentiles(end_to_end))


def one_by_one(producer: Producer, count: int, bars: Bars) -> list[int]:
    """Sends one record at a time. Returns the nanoseconds from each send to its acknowledgement."""
    found = []
    value = bytes(SIZE)
    for number in range(count):
        began = time.perf_counter_ns()
        producer.send(TOPIC, value).result(RESULT_S)
        found.append(time.perf_counter_ns() - began)
        bars["acked"] = number + 1
    return found


def at_a_rate(bootstrap: str, producer: Producer, count: int, bars: Bars) -> list[int]:
    """Sends a record every millisecond. Returns the nanoseconds from each send to the poll that returned the record."""
    found: list[int] = []
    with Consumer(bootstrap, auto_offset_reset="latest") as consumer:
        place = TopicPartition(TOPIC, 0)
        consumer.assign([place])
        consumer.position(place)
        sender = threading.Thread(target=_send_at_rate, args=(producer, count), name="demo-sender", daemon=True)
        sender.start()
        deadline = time.monotonic() + RESULT_S
        while len(found) < count and time.monotonic() < deadline:
            values = consumer.poll(POLL_S).values()
            now = time.perf_counter_ns()
            found += [now - int.from_bytes(value[:8]) for value in values]
            bars["received"] = len(found)
        sender.join()
    if len(found) < count:
        raise Failure(f"only {len(found)} of {count} records came within {RESULT_S:.0f} s: is the machine very busy?")
    return found


def _send_at_rate(producer: Producer, count: int) -> None:
    rest = bytes(SIZE - 8)
    began = time.perf_counter()
    for number in range(count):
        wait = began + number / RATE - time.perf_counter()
        if wait > 0:
            time.sleep(wait)
        producer.send(TOPIC, time.perf_counter_ns().to_bytes(8) + rest)


def percentiles(nanoseconds: list[int]) -> Latency:
    """Returns the percentiles of the measured values."""
    ordered = sorted(nanoseconds)
    return Latency(*(ordered[int(len(ordered) * part)] / MILLION for part in (0.50, 0.99)))

"""Measures end-to-end latency in a process of its own: a steady producer, and a consumer on a thread.

``python -m conformance.bench.latency BOOTSTRAP TOPIC SECONDS`` prints p50, p99 and p99.9 in milliseconds as JSON.
"""

from __future__ import annotations

import json
import multiprocessing
import struct
import sys
import time
from multiprocessing.connection import Connection

from confluent_kafka import Consumer, Producer, TopicPartition

RECORDS_PER_S = 1_000
WARM_UP_S = 1.0
_STAMP = struct.Struct(">q")


def consume(bootstrap: str, topic: str, expected: int, reply: Connection) -> None:
    """Reads ``expected`` records and sends back each one's latency in nanoseconds."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "latency",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 500,
            "fetch.min.bytes": 1,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    consumer.poll(0.5)
    reply.send("ready")
    delays: list[float] = []
    while len(delays) < expected:
        message = consumer.poll(10)
        if message is None:
            break
        if message.error() is None:
            delays.append(time.monotonic_ns() - _STAMP.unpack_from(message.value() or b"")[0])
    reply.send(delays)
    consumer.close()


def produce(bootstrap: str, topic: str, records: int) -> None:
    """Sends one stamped record of 100 B every millisecond."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": 1})
    padding = b"x" * (100 - _STAMP.size)
    start = time.monotonic_ns()
    for number in range(records):
        due = start + number * 1_000_000_000 // RECORDS_PER_S
        while (left := due - time.monotonic_ns()) > 0:
            time.sleep(left / 1e9)
        producer.produce(topic, _STAMP.pack(time.monotonic_ns()) + padding, partition=0)
        producer.poll(0)
    producer.flush(30)


def percentile(ordered: list[int], share: float) -> float:
    """Returns a percentile in milliseconds."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] / 1e6


def main(bootstrap: str, topic: str, seconds: str) -> int:
    warm_up = int(WARM_UP_S * RECORDS_PER_S)
    records = warm_up + int(float(seconds) * RECORDS_PER_S)
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    reader = context.Process(target=consume, args=(bootstrap, topic, records, theirs))
    reader.start()
    if ours.recv() != "ready":
        return 1
    produce(bootstrap, topic, records)
    delays = ours.recv()
    reader.join(30)
    if len(delays) != records:
        print(f"{len(delays)} of {records} records came back", file=sys.stderr)
        return 1
    ordered = sorted(delays[warm_up:])
    shares = {"p50": 0.5, "p99": 0.99, "p999": 0.999}
    print(json.dumps({f"e2e_{name}_ms": percentile(ordered, share) for name, share in shares.items()}))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

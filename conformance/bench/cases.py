"""The loads of the benchmark, the same for every broker: librdkafka in front, ``/proc`` behind.

A case puts a load on a running broker and returns figures. Broker CPU is what the broker's process used while the load
ran. So a slow or busy client changes the throughput but not the cost. All loads run from their own processes or threads
on the machine that the broker runs on.
"""

from __future__ import annotations

import json
import mmap
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import count, repeat
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from harness import processes
from harness.servers.brokers import Broker

KIB = 1024
GB = 1_000_000_000
RECORD = bytes(range(256)) * 4
BATCH = 1_000_000
"""The most bytes of a large batch."""
PATIENCE_S = 120
#: The share of the available memory that a measurement claims first.
CLAIMED = 0.85
_number = count(1)

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Scale:
    """The size of the load of one measurement."""

    produce_records: int
    small_records: int
    latency_s: float
    idle_s: float
    replicated_records: int
    kills: int
    clients: int
    partitions: int


FULL = Scale(
    produce_records=1_000_000,
    small_records=60_000,
    latency_s=10,
    idle_s=10,
    replicated_records=1_000_000,
    kills=12,
    clients=5_000,
    partitions=10_000,
)
QUICK = Scale(
    produce_records=250_000,
    small_records=15_000,
    latency_s=5,
    idle_s=5,
    replicated_records=250_000,
    kills=3,
    clients=500,
    partitions=1_000,
)


Case = Callable[[Any, Scale], Figures]
"""A load on a broker, or on several."""


class LoadError(RuntimeError):
    """A broker refused a part of the load."""


def create_topic(broker: Broker, partitions: int) -> str:
    """Creates a new topic that the broker leads."""
    name = f"bench-{next(_number)}"
    admin = AdminClient({**broker.librdkafka})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(30)
    while name not in admin.list_topics(timeout=10).topics:
        time.sleep(0.01)
    return name


def delete_topic(broker: Broker, topic: str) -> None:
    admin = AdminClient({**broker.librdkafka})
    admin.delete_topics([topic])[topic].result(30)


def large_batches(address: Mapping[str, str], batch_size: int = BATCH) -> Producer:
    """Returns a librdkafka producer with acks=all and batches of up to so many bytes. ``address``: ``librdkafka`` of
    the broker."""
    return Producer(
        {
            **address,
            "acks": "all",
            "linger.ms": 20,
            "batch.size": batch_size,
            "queue.buffering.max.messages": 500_000,
            "queue.buffering.max.kbytes": 512 * KIB,
        }
    )


def send(producer: Producer, topic: str, rows: Iterable[tuple[bytes, bytes | None, int]]) -> None:
    """Sends the value, key and partition of each record. Returns when all are acknowledged.

    Raises:
        LoadError: not all were acknowledged in time.
    """
    produce = producer.produce
    for value, key, partition in rows:
        while True:
            try:
                produce(topic, value, key, partition)
                break
            except BufferError:
                producer.poll(0.01)
    if producer.flush(PATIENCE_S):
        raise LoadError(f"records were not acknowledged within {PATIENCE_S} s")


def claim_memory() -> None:
    """Touches most of the free memory and gives it back, so that the page cache grows into memory that is really there.

    A virtual machine gets its memory from the host page by page, on the first touch, and may give back what is free.
    That costs more than the copy into the page cache, and depends on what ran before. It would be counted as the
    broker's.
    """
    available = processes.available_memory()
    piece = b"\1" * (KIB * KIB)
    with mmap.mmap(-1, int(available * CLAIMED) // len(piece) * len(piece)) as memory:
        for _ in range(len(memory) // len(piece)):
            memory.write(piece)


def produce_large(broker: Broker, scale: Scale) -> Figures:
    """Produces 1 KB records in batches of up to 1 MB to 4 partitions with acks=all, and reads them back."""
    claim_memory()
    return transfer(broker, scale)


def transfer(broker: Broker, scale: Scale) -> Figures:
    """Runs the load of ``produce_large`` without claiming memory first."""
    topic = create_topic(broker, 4)
    figures = _produce(broker, topic, scale.produce_records)
    figures |= _fetch(broker, topic, scale.produce_records)
    delete_topic(broker, topic)
    return figures


def _produce(broker: Broker, topic: str, records: int) -> Figures:
    producer = large_batches(broker.librdkafka)
    before, start = processes.cpu(broker.pid), time.monotonic()
    send(producer, topic, ((RECORD, None, number & 3) for number in range(records)))
    seconds = time.monotonic() - start
    cpu = processes.cpu(broker.pid) - before
    volume = records * len(RECORD) / GB
    return {"produce_cpu_s_per_gb": cpu.total_s / volume, "produce_mb_s": volume * 1000 / seconds}


def _fetch(broker: Broker, topic: str, records: int) -> Figures:
    consumer = Consumer(
        {
            **broker.librdkafka,
            "group.id": "bench",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "queued.min.messages": 500_000,
            "queued.max.messages.kbytes": 512 * KIB,
            "fetch.max.bytes": 64_000_000,
            "max.partition.fetch.bytes": 8_000_000,
            "fetch.queue.backoff.ms": 1,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(4)])
    before, start = processes.cpu(broker.pid), time.monotonic()
    seen = volume = 0
    while seen < records:
        for message in consumer.consume(5_000, 30):
            if message.error():
                raise LoadError(str(message.error()))
            seen += 1
            volume += len(message.value() or b"")
    seconds = time.monotonic() - start
    cpu = processes.cpu(broker.pid) - before
    consumer.close()
    return {
        "fetch_cpu_s_per_gb": cpu.total_s / (volume / GB),
        "fetch_mb_s": volume / 1_000_000 / seconds,
    }


def produce_small(broker: Broker, scale: Scale) -> Figures:
    """Produces one record of 100 B per request, with 5 requests in flight and acks=1, to one partition."""
    topic = create_topic(broker, 1)
    producer = Producer(
        {
            **broker.librdkafka,
            "acks": 1,
            "linger.ms": 0,
            "batch.num.messages": 1,
            "max.in.flight.requests.per.connection": 5,
            "queue.buffering.max.messages": scale.small_records + 1,
        }
    )
    producer.produce(topic, b"first")
    producer.flush(30)
    value = b"x" * 100
    before, start = processes.cpu(broker.pid), time.monotonic()
    send(producer, topic, repeat((value, None, 0), scale.small_records))
    seconds = time.monotonic() - start
    cpu = processes.cpu(broker.pid) - before
    delete_topic(broker, topic)
    return {
        "small_cpu_us": cpu.total_s * 1e6 / scale.small_records,
        "small_requests_s": scale.small_records / seconds,
    }


def end_to_end(broker: Broker, scale: Scale) -> Figures:
    """Measures milliseconds from ``produce`` in one process to the record in another, at 1,000 records/s of 100 B with
    linger 0.
    """
    topic = create_topic(broker, 1)
    command = [sys.executable, "-m", "conformance.bench.latency", broker.bootstrap, topic]
    done = subprocess.run(
        [*command, str(scale.latency_s)], capture_output=True, text=True, timeout=scale.latency_s + 60, check=False
    )
    if done.returncode:
        raise LoadError(done.stderr[-2000:])
    delete_topic(broker, topic)
    figures: Figures = json.loads(done.stdout)
    return figures


def idle(broker: Broker, scale: Scale) -> Figures:
    """Measures the memory and CPU of an idle broker without clients."""
    time.sleep(3)
    before, start = processes.cpu_ns(broker.pid), time.monotonic()
    time.sleep(scale.idle_s)
    used_s = (processes.cpu_ns(broker.pid) - before) / 1e9
    return {
        "idle_rss_mb": processes.rss_kib(broker.pid) * KIB / 1e6,
        "idle_cpu_percent": 100 * used_s / (time.monotonic() - start),
    }


def start_to_first_ack(broker: Broker, scale: Scale) -> Figures:
    """Measures the time from the start of the process to the first acknowledged record. The producer waits for the
    broker.
    """
    del scale
    broker.stop()
    acknowledged: list[float] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is None:
            acknowledged.append(time.monotonic())

    producer = Producer(
        {
            **broker.librdkafka,
            "reconnect.backoff.ms": 5,
            "reconnect.backoff.max.ms": 20,
            "retry.backoff.ms": 10,
            "topic.metadata.refresh.fast.interval.ms": 10,
            "linger.ms": 0,
            "log_level": 0,
        }
    )
    producer.produce(f"first-{next(_number)}", b"hello", on_delivery=delivered)
    start = time.monotonic()
    broker.start(wait=False)
    while not acknowledged and time.monotonic() - start < 60:
        producer.poll(0.005)
    if not acknowledged:
        raise LoadError("no record was acknowledged within 60 s of the start")
    broker.wait_ready()
    return {"first_ack_s": acknowledged[0] - start}


#: In the order of the runs. The first cases need a fresh broker.
COLD: tuple[Case, ...] = (start_to_first_ack, idle, produce_small, produce_large, end_to_end)
WARM: tuple[Case, ...] = (produce_small, produce_large, end_to_end)

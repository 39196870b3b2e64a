"""Clients as pumps: each writes a file's lines into a topic, or reads a topic back into the bytes of the file."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from aiokafka import AIOKafkaConsumer
from confluent_kafka import OFFSET_BEGINNING
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import KafkaConsumer, TopicPartition

from harness.clients.librdkafka import Consumer
from harness.peers import Java
from harness.servers.brokers import Broker
from harness.witnesses import used

IDLE_S = 30.0


def kcat(*arguments: str, stdin: Path | None = None, timeout_s: float = 120) -> bytes:
    """Runs kcat to its end and returns its output."""
    used("kcat")
    with (stdin or Path("/dev/null")).open("rb") as feed:
        done = subprocess.run(
            ["kcat", *arguments], stdin=feed, capture_output=True, timeout=timeout_s, check=False
        )
    assert done.returncode == 0, f"kcat {' '.join(arguments)}: {done.stderr.decode()}"
    return done.stdout


def write_by_kcat(broker: Broker, topic: str, path: Path, codec: str, *more: str) -> None:
    """``more``: further settings of librdkafka, ``key=value``."""
    settings = [word for setting in ("acks=all", *more) for word in ("-X", setting)]
    kcat("-P", "-b", broker.bootstrap, "-t", topic, "-p", "0", "-z", codec, *settings, stdin=path)


def read_by_kcat(broker: Broker, topic: str, lines: int) -> bytes:
    return kcat("-C", "-q", "-b", broker.bootstrap, "-t", topic, "-p", "0", "-o", "beginning", "-c", str(lines))


def read_by_confluent(broker: Broker, topic: str, lines: int) -> bytes:
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "unused", "enable.auto.commit": False}
    consumer = Consumer({**settings, "fetch.queue.backoff.ms": 5})
    consumer.assign([ConfluentPartition(topic, 0, OFFSET_BEGINNING)])
    read: list[bytes] = []
    try:
        while len(read) < lines:
            messages = consumer.consume(min(10_000, lines - len(read)), IDLE_S)
            assert messages, f"{len(read)} of {lines} lines came"
            assert all(message.error() is None for message in messages)
            read += [message.value() for message in messages]
    finally:
        consumer.close()
    return joined(iter(read))


def read_by_kafka_python(broker: Broker, topic: str, lines: int) -> bytes:
    used("kafka-python")
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest")
    place = TopicPartition(topic, 0)
    consumer.assign([place])
    read: list[bytes] = []
    try:
        while len(read) < lines:
            rows = consumer.poll(IDLE_S * 1000, max_records=10_000)
            assert rows, f"{len(read)} of {lines} lines came"
            read += [row.value for row in rows[place]]
    finally:
        consumer.close()
    return joined(iter(read))


def read_by_aiokafka(broker: Broker, topic: str, lines: int) -> bytes:
    used("aiokafka")
    return asyncio.run(_read_by_aiokafka(broker, topic, lines))


async def _read_by_aiokafka(broker: Broker, topic: str, lines: int) -> bytes:
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest")
    read: list[bytes] = []
    await consumer.start()
    try:
        while len(read) < lines:
            rows = await consumer.getmany(timeout_ms=int(IDLE_S * 1000), max_records=10_000)
            assert rows, f"{len(read)} of {lines} lines came"
            read += [row.value for part in rows.values() for row in part]
    finally:
        await consumer.stop()
    return joined(iter(read))


def read_by_console_consumer(broker: Broker, topic: str, lines: int) -> bytes:
    text = Java()(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", broker.bootstrap, "--topic", topic, "--partition", "0"),
        *("--offset", "earliest", "--max-messages", str(lines), "--timeout-ms", "30000"),
        timeout_s=120,
    )
    return text.encode()


def joined(lines: Iterator[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


READERS: Mapping[str, Callable[[Broker, str, int], bytes]] = {
    "kcat": read_by_kcat,
    "confluent-kafka": read_by_confluent,
    "kafka-python": read_by_kafka_python,
    "aiokafka": read_by_aiokafka,
    "kafka-console-consumer": read_by_console_consumer,
}

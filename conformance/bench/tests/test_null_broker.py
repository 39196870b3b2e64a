"""Every client of the benchmark produces to the null broker and reads from it what it serves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from conformance.bench.null_broker import NullBroker, batch_of
from harness.protocol.wire_client import Wire

RECORDS = 10
SIZE = 100
WANTED = 25
EXPECTED = [(offset, b"%08d" % (offset % RECORDS) + b"x" * (SIZE - 8)) for offset in range(WANTED)]


@pytest.fixture(scope="module")
def broker() -> Iterator[NullBroker]:
    with NullBroker(batch_of(SIZE, RECORDS), partitions=2) as one:
        yield one
        assert one.logged() == "", "no client asked for what it does not serve"


def confluent_reads(broker: NullBroker, *, group: bool) -> list[tuple[int, bytes]]:
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    if group:
        consumer.subscribe(["bench"])
    else:
        consumer.assign([TopicPartition("bench", 0, 0)])
    found: list[tuple[int, bytes]] = []
    while len(found) < WANTED:
        for message in consumer.consume(WANTED, 10):
            assert message.error() is None, message.error()
            if message.partition() == 0:
                found.append((message.offset(), message.value()))
    consumer.close()
    return found[:WANTED]


@pytest.mark.parametrize("group", [False, True], ids=["assigned", "subscribed"])
def test_confluent_kafka_reads_the_batch_again_and_again(broker: NullBroker, group: bool) -> None:
    assert confluent_reads(broker, group=group) == EXPECTED


@pytest.mark.parametrize("idempotent", [False, True])
def test_confluent_kafka_gets_consecutive_offsets(broker: NullBroker, idempotent: bool) -> None:
    offsets: list[int] = []
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "linger.ms": 1, "enable.idempotence": idempotent}
    )
    for number in range(1000):
        producer.produce(
            f"idempotent-{idempotent}", b"%d" % number, partition=1, on_delivery=lambda _, m: offsets.append(m.offset())
        )
    assert producer.flush(10) == 0
    assert offsets == list(range(1000))


def test_aiokafka_produces_and_reads(broker: NullBroker) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
    from aiokafka import TopicPartition as Partition

    async def talk() -> tuple[list[int], list[tuple[int, bytes]]]:
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
            offsets = [(await producer.send_and_wait("aio", b"v", partition=0)).offset for _ in range(3)]
        consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest")
        async with consumer:
            consumer.assign([Partition("aio", 0)])
            found: list[tuple[int, bytes]] = []
            while len(found) < WANTED:
                for rows in (await consumer.getmany(timeout_ms=5000, max_records=WANTED)).values():
                    found += [(row.offset, row.value) for row in rows]
        return offsets, found[:WANTED]

    assert asyncio.run(talk()) == ([0, 1, 2], EXPECTED)


def test_kafka_python_produces_and_reads(broker: NullBroker) -> None:
    from kafka import KafkaConsumer, KafkaProducer
    from kafka import TopicPartition as Partition

    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    offsets = [producer.send("python", b"v", partition=0).get(10).offset for _ in range(3)]
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest")
    consumer.assign([Partition("python", 0)])
    found: list[tuple[int, bytes]] = []
    while len(found) < WANTED:
        for rows in consumer.poll(5000, max_records=WANTED).values():
            found += [(row.offset, row.value) for row in rows]
    consumer.close()
    assert (offsets, found[:WANTED]) == ([0, 1, 2], EXPECTED)


def test_large_produce_requests_are_skipped_and_later_requests_answered(broker: NullBroker) -> None:
    """Two partitions have a megabyte each: the records lie outside the buffer, and the second row lies behind them."""
    batch = batch_of(1000, 1000)
    rows = [{"index": index, "records": batch} for index in (0, 1)]
    with Wire(("127.0.0.1", broker.port)) as wire:
        for version in (3, 9):
            topics = [{"name": f"large-{version}", "partition_data": rows}]
            reply = wire.ask("Produce", version, acks=1, timeout_ms=1000, topic_data=topics)
            answered = reply.responses[0].partition_responses
            assert [(row.index, row.error_code, row.base_offset) for row in answered] == [(0, 0, 0), (1, 0, 0)]


@pytest.mark.parametrize("version", range(4, 17))
def test_a_fetch_keeps_both_limits_but_returns_at_least_one_batch(broker: NullBroker, version: int) -> None:
    size = len(batch_of(SIZE, RECORDS))
    rows = [{"partition": index, "fetch_offset": 25, "partition_max_bytes": 3 * size} for index in (0, 1)]
    with Wire(("127.0.0.1", broker.port)) as wire:
        topic_id = wire.ask("Metadata", 12, topics=[{"name": "bench"}]).topics[0].topic_id
        named = {"topic_id": topic_id} if version >= 13 else {"topic": "bench"}
        topics = [{**named, "partitions": rows}]
        for most, expected in ((1, [1, 0]), (4 * size, [3, 1]), (1 << 20, [3, 3])):
            reply = wire.ask("Fetch", version, max_wait_ms=0, min_bytes=1, max_bytes=most, topics=topics)
            got = [len(row.records or b"") // size for row in reply.responses[0].partitions]
            assert got == expected
            assert (reply.responses[0].partitions[0].records or b"")[:8] == (20).to_bytes(8, "big")

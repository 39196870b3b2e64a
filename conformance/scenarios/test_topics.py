"""Topics and order: S01–S04."""

from __future__ import annotations

from collections import Counter

import confluent_kafka

from conformance.conftest import Counted, NewBroker, NewTopic
from conformance.data.dataset import flights
from conformance.scenarios.by_spark import BySpark
from harness.clients.librdkafka import Deliveries, consumer, present, producer, read, take, write
from harness.protocol import error_codes
from harness.protocol.wire_client import Wire
from harness.servers.brokers import Broker
from harness.waiting import until


def test_s01_each_record_is_stored_in_exactly_one_of_three_partitions(
    broker: Broker, new_topic: NewTopic, by_spark: BySpark, counted: Counted
) -> None:
    lines = flights().splitlines()[:30_000]
    topic = new_topic(partitions=3)
    write(broker, topic, lines, keys=[line.split(b",")[11] for line in lines])
    with Wire(broker.address) as wire:
        ends = [wire.end_offset(topic, partition) for partition in range(3)]
    assert sum(ends) == len(lines)
    assert all(ends)
    found = [
        message.value()
        for partition in range(3)
        for message in read(broker, topic, ends[partition], partition)
    ]
    assert Counter(found) == Counter(lines)
    rows = by_spark(broker, topic)
    assert Counter(row.value for row in rows) == Counter(lines)
    assert [(row.partition, row.offset) for row in rows] == [(p, n) for p in range(3) for n in range(ends[p])]
    counted(records=len(lines), found=len(found), found_by_spark=len(rows))


def test_s02_order_within_a_partition_is_the_producers_order(
    broker: Broker, new_topic: NewTopic, by_spark: BySpark
) -> None:
    topic = new_topic(partitions=3)
    numbers = [b"%d" % number for number in range(20_000)]
    sent = write(broker, topic, numbers, sticky_partitioning_linger_ms=0, linger_ms=1)
    for partition in range(3):
        expected = [present(message.value()) for message in sent if message.partition() == partition]
        assert expected, "the producer left a partition out"
        found = read(broker, topic, len(expected), partition)
        assert [message.value() for message in found] == expected
        assert [message.offset() for message in found] == list(range(len(expected)))
        assert [int(present(message.value())) for message in found] == sorted(map(int, expected))
    rows = by_spark(broker, topic)
    for partition in range(3):
        expected = [present(message.value()) for message in sent if message.partition() == partition]
        assert [row.value for row in rows if row.partition == partition] == expected
    assert [row.value for row in rows] != numbers, "across partitions no order is kept, and none is promised"


def test_s03_writing_to_a_topic_that_does_not_exist_creates_it_with_one_partition(
    broker: Broker, by_spark: BySpark
) -> None:
    write(broker, "not-there-yet", [b"first"])
    with Wire(broker.address) as wire:
        (partition,) = wire.metadata("not-there-yet").partitions
    assert partition.replica_nodes == [1]
    assert [message.value() for message in read(broker, "not-there-yet", 1)] == [b"first"]
    assert by_spark(broker, "not-there-yet") == [(0, 0, None, b"first")]


def test_s03_an_auto_created_topic_has_the_brokers_defaults(new_broker: NewBroker) -> None:
    broker = new_broker(num_partitions=4)
    write(broker, "made", [b"first"])
    with Wire(broker.address) as wire:
        assert len(wire.metadata("made").partitions) == 4


def test_s03_no_topic_is_created_if_auto_create_is_disabled(new_broker: NewBroker) -> None:
    broker = new_broker(auto_create_topics_enable="false")
    with Wire(broker.address) as wire:
        reply = wire.ask("Metadata", 9, topics=[{"name": "nowhere"}], allow_auto_topic_creation=True)
        assert reply.topics[0].error_code == error_codes.UNKNOWN_TOPIC_OR_PARTITION
    reports = Deliveries()
    client = producer(broker, topic_metadata_propagation_max_ms=0)
    client.produce("nowhere", b"lost", on_delivery=reports)
    assert client.flush(90) == 0
    assert [error.code() for error in reports.errors] == [confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART]


def test_s04_consumers_of_one_group_share_the_records_and_each_group_gets_all(
    broker: Broker, new_topic: NewTopic, group: str, by_spark: BySpark
) -> None:
    topic = new_topic(partitions=2)
    with (
        by_spark.reading(broker, topic) as everything_else,
        consumer(broker, group) as one,
        consumer(broker, group) as other,
        consumer(broker, group + "-more") as alone,
    ):
        for client in (one, other, alone):
            client.subscribe([topic])
        # Each member polls.
        until(lambda: all([_assigned(one, 1), _assigned(other, 1), _assigned(alone, 2)]), "assignments")
        numbers = [b"%d" % number for number in range(2_000)]
        for partition in range(2):
            write(broker, topic, numbers[partition::2], partition=partition)
        shares = [_drain(one, 1_000), _drain(other, 1_000)]
        everything = [present(message.value()) for message in take(alone, 2_000)]
        streamed = [present(row.value) for row in everything_else.await_rows(2_000)]
    assert sorted(shares[0] + shares[1], key=int) == numbers
    assert not set(shares[0]) & set(shares[1])
    assert sorted(everything, key=int) == sorted(streamed, key=int) == numbers


def _assigned(client: confluent_kafka.Consumer, count: int) -> bool:
    message = client.poll(0.05)
    assert message is None or message.error() is None
    return len(client.assignment()) == count


def _drain(client: confluent_kafka.Consumer, expected: int) -> list[bytes]:
    """Reads the expected records, then a little longer for unexpected ones."""
    found = take(client, expected)
    for _ in range(3):
        found += client.consume(100, 0.1)
    return [present(message.value()) for message in found]

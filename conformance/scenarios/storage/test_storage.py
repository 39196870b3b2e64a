"""Reads files from the disk while a broker serves them: S70, S71, S76, S79 and S80."""

from __future__ import annotations

import subprocess
import time

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource

from conformance.conftest import NewBroker, NewTopic
from conformance.data import batches
from conformance.scenarios.by_spark import BySpark
from conformance.scenarios.storage.files import MIB, base_offsets
from harness.clients.librdkafka import consumer, read, take, write
from harness.clients.members import committed, find_coordinator
from harness.protocol import error_codes
from harness.protocol.wire_client import Wire
from harness.servers.brokers import Broker
from harness.witnesses import used


def test_s70_a_partition_is_a_folder_of_segments_named_by_their_20_digit_base_offset(
    broker: Broker, new_topic: NewTopic, by_spark: BySpark
) -> None:
    topic = new_topic(partitions=2, segment_bytes=MIB)
    write(broker, topic, [b"x" * 1000] * 3_000, partition=1, batch_num_messages=100)
    assert broker.partition_dir(topic, 0).is_dir()
    folder = broker.partition_dir(topic, 1)
    offsets = sorted(int(path.stem) for path in folder.glob("*.log"))
    assert offsets[0] == 0
    assert len(offsets) >= 3
    for offset in offsets:
        names = {f"{offset:020}{suffix}" for suffix in (".log", ".index", ".timeindex")}
        assert names <= {path.name for path in folder.iterdir()}
    for path in folder.glob("*.log"):
        found = batches.headers(path.read_bytes())
        assert found[0].base_offset == int(path.stem)
        assert all(header.crc_is_right for header in found)
    assert [(row.partition, row.offset) for row in by_spark(broker, topic)] == [(1, n) for n in range(3_000)]


def test_s71_a_segment_rolls_by_size(broker: Broker, new_topic: NewTopic, by_spark: BySpark) -> None:
    topic = new_topic(segment_bytes=MIB)
    with Wire(broker.address) as wire:
        for _ in range(24):
            assert wire.produce(topic, batches.batch([b"x" * 100_000])).error_code == 0
    assert base_offsets(broker, topic) == [0, 10, 20]
    sizes = [path.stat().st_size for path in broker.partition_dir(topic).glob("*.log")]
    assert max(sizes) <= MIB
    assert [row.offset for row in by_spark(broker, topic)] == list(range(24))


@pytest.mark.nightly
def test_s71_a_segment_rolls_by_age(broker: Broker, new_topic: NewTopic) -> None:
    topic = new_topic(segment_ms=200)
    with Wire(broker.address) as wire:
        for _ in range(3):
            wire.produce(topic, batches.batch([b"x"]))
            time.sleep(0.3)
    assert base_offsets(broker, topic) == [0, 1, 2]


def test_s71_the_age_of_a_segment_is_that_of_its_records(broker: Broker, new_topic: NewTopic) -> None:
    """Kafka measures a segment's age by its records' timestamps: an hour between two records is an hour."""
    topic = new_topic(segment_ms=3_600_000)
    start = batches.now_ms() - 10 * 3_600_000
    with Wire(broker.address) as wire:
        for step in range(4):
            wire.produce(topic, batches.batch([b"x"], base_timestamp=start + step * 2_000_000))
    assert base_offsets(broker, topic) == [0, 2]


def test_s71_a_segment_rolls_when_its_index_is_full(broker: Broker, new_topic: NewTopic) -> None:
    topic = new_topic(segment_index_bytes=80, index_interval_bytes=0)
    with Wire(broker.address) as wire:
        for _ in range(40):
            wire.produce(topic, batches.batch([b"x"]))
    offsets = base_offsets(broker, topic)
    assert len(offsets) >= 4
    for path in sorted(broker.partition_dir(topic).glob("*.index"))[:-1]:
        assert path.stat().st_size <= 80


@pytest.mark.parametrize(
    ("key", "config", "expected"),
    [
        ("log.segment.bytes", {"log_segment_bytes": MIB}, [0, 10, 20]),
        ("log.roll.ms", {"log_roll_ms": 2_000}, [0, 10, 20]),
        ("log.index.size.max.bytes", {"log_index_size_max_bytes": 80, "log_index_interval_bytes": 0}, [0, 11, 22]),
    ],
)
def test_s71_the_brokers_own_keys_roll_segments(
    new_broker: NewBroker, key: str, config: dict[str, int], expected: list[int]
) -> None:
    broker = new_broker(**config)
    start = batches.now_ms() - 60_000
    with Wire(broker.address) as wire:
        wire.create_topic("t")
        for number in range(24):
            apart_ms = number // 10 * 5_000 if key == "log.roll.ms" else 0
            data = batches.batch([b"x" * 100_000], base_timestamp=start + apart_ms)
            assert wire.produce("t", data).error_code == 0
    assert base_offsets(broker, "t") == expected


def test_s76_checkpoints_hold_what_was_flushed_and_replicated(new_broker: NewBroker) -> None:
    broker = new_broker()
    with Wire(broker.address) as wire:
        wire.create_topic("t", 2)
    write(broker, "t", [b"x"] * 30, partition=0)
    write(broker, "t", [b"x"] * 12, partition=1)
    broker.stop()
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        assert {"t 0 30", "t 1 12"} <= set((broker.log_dir / name).read_text().splitlines())


@pytest.mark.parametrize("magic", [0, 1])
def test_s79_a_segment_of_an_old_message_format_is_read_and_new_records_are_v2(
    new_broker: NewBroker, magic: int, by_spark: BySpark
) -> None:
    """The test puts the old file into the partition's folder while the broker is down, as an upgrade would leave it."""
    broker = new_broker()
    with Wire(broker.address) as wire:
        wire.create_topic("t")
    broker.stop()
    old = b"".join(
        batches.message(b"old %d" % number, b"key", magic=magic, offset=number, timestamp=1_000 + number)
        for number in range(10)
    )
    folder = broker.partition_dir("t")
    (folder / f"{0:020}.log").write_bytes(old)
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        path = broker.log_dir / name
        path.write_text(path.read_text().replace("t 0 0\n", "t 0 10\n"))
    broker.start()
    write(broker, "t", [b"new"])
    values = [row.value() for row in read(broker, "t", 11)]
    assert values == [b"old %d" % number for number in range(10)] + [b"new"]
    assert by_spark.values(broker, "t") == values
    with Wire(broker.address) as wire:
        served = [wire.fetch("t", offset).records for offset in (0, 10)]
    assert {header.magic for data in served for header in batches.headers(data)} == {2}


@pytest.mark.parametrize("magic", [0, 1])
def test_s79_new_requests_take_format_v2_only(broker: Broker, topic: str, magic: int) -> None:
    with Wire(broker.address) as wire:
        reply = wire.produce(topic, batches.message(b"old", magic=magic, timestamp=1))
        assert reply.error_code == error_codes.INVALID_RECORD
        assert wire.end_offset(topic) == 0


@pytest.mark.parametrize("how", ["restart", "crash"])
def test_s80_a_restarted_broker_has_kept_everything(
    new_broker: NewBroker, how: str, by_spark: BySpark
) -> None:
    broker = new_broker()
    with Wire(broker.address) as wire:
        wire.create_topic("a", 3, {"retention.ms": 123_456_789})
        wire.create_topic("b", 1)
        wire.create_topic("gone")
        find_coordinator(wire, "g")
        topic_id = wire.topic_id("a")
    write(broker, "a", [b"%d" % n for n in range(900)], keys=[b"%d" % n for n in range(900)])
    write(broker, "b", [b"%d" % n for n in range(50)])
    used("librdkafka")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics(["gone"])["gone"].result(90)
    with consumer(broker, "g", enable_auto_commit=False) as client:
        client.subscribe(["b"])
        client.commit(message=take(client, 20)[-1], asynchronous=False)
    with Wire(broker.address) as wire:
        before = [wire.fetch("a", 0, partition).records for partition in range(3)]
    broker.crash() if how == "crash" else broker.restart()
    with Wire(broker.address) as wire:
        assert [wire.fetch("a", 0, partition).records for partition in range(3)] == before
        assert wire.topic_id("a") == topic_id
        assert committed(wire, "g", "b") == 20
        names = {topic.name for topic in wire.ask("Metadata", 9, topics=None).topics}
        assert {"a", "b"} <= names
        assert "gone" not in names
    resource = ConfigResource(ConfigResource.Type.TOPIC, "a")
    used("librdkafka")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    assert admin.describe_configs([resource])[resource].result(90)["retention.ms"].value == "123456789"
    write(broker, "b", [b"more"])
    assert [row.value() for row in read(broker, "b", 1, offset=50)] == [b"more"]
    assert sorted(int(value or b"") for value in by_spark.values(broker, "a")) == list(range(900))


def test_s80_two_brokers_do_not_share_a_data_folder(new_broker: NewBroker) -> None:
    broker = new_broker()
    process = subprocess.run(broker._command(), capture_output=True, timeout=60, check=False)
    assert process.returncode != 0
    assert broker.alive

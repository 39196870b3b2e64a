"""Wrong bytes: S33. A broker refuses them, and no reader accepts bytes that rotted on its disk."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import confluent_kafka
import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import CorruptRecordError

from conformance.clients.streams import kcat
from conformance.conftest import NewBroker
from conformance.data import batches
from conformance.scenarios.by_spark import BySpark, offsets
from harness.clients.librdkafka import consumer, read
from harness.protocol import error_codes
from harness.protocol.wire_client import Wire
from harness.servers.brokers import Broker
from harness.witnesses import used


def test_s33_a_batch_with_a_wrong_crc_is_refused_and_nothing_is_written(
    broker: Broker, topic: str
) -> None:
    with Wire(broker.address) as wire:
        assert wire.produce(topic, batches.batch([b"x"], crc=12345)).error_code == error_codes.CORRUPT_MESSAGE
        assert wire.end_offset(topic) == 0
        assert wire.produce(topic, batches.batch([b"x"])).base_offset == 0


@pytest.mark.parametrize("position", [21, 30, 45, 57, 70, -1])
def test_s33_every_flipped_bit_covered_by_the_crc_is_detected(
    broker: Broker, topic: str, position: int
) -> None:
    data = bytearray(batches.batch([b"some value", b"another"]))
    data[position] ^= 0x10
    with Wire(broker.address) as wire:
        assert wire.produce(topic, bytes(data)).error_code == error_codes.CORRUPT_MESSAGE
        assert wire.end_offset(topic) == 0


@pytest.fixture
def rotten_broker(new_broker: NewBroker) -> Broker:
    """Starts a broker with five batches of one record; a byte of the third value changed on disk while it was down."""
    broker = new_broker()
    with Wire(broker.address) as wire:
        wire.create_topic("t")
        for number in range(5):
            wire.produce("t", batches.batch([b"value %d" % number]))
    broker.stop()
    path = broker.partition_dir("t") / f"{0:020}.log"
    path.write_bytes(path.read_bytes().replace(b"value 2", b"vAlue 2"))
    return broker.start()


def _by_confluent(broker: Broker) -> list[bytes | None]:
    found: list[bytes | None] = []
    with consumer(broker, check_crcs=True, enable_auto_commit=False) as client:
        client.assign([confluent_kafka.TopicPartition("t", 0, 0)])
        while len(found) < 5:
            message = client.poll(5)
            if message is None or message.error() is not None:
                break
            found.append(message.value())
    return found


def _by_kafka_python(broker: Broker) -> list[bytes | None]:
    used("kafka-python")
    client = KafkaConsumer(bootstrap_servers=broker.bootstrap, check_crcs=True)
    place = TopicPartition("t", 0)
    client.assign([place])
    client.seek(place, 0)
    found: list[bytes | None] = []
    try:
        for _ in range(10):
            found += [row.value for row in client.poll(500, max_records=1).get(place, [])]
    except CorruptRecordError:
        pass
    finally:
        client.close()
    return found


def _by_kcat(broker: Broker) -> list[bytes | None]:
    command = ["kcat", "-C", "-q", "-b", broker.bootstrap, "-t", "t", "-o", "beginning", "-c", "5"]
    try:
        done = subprocess.run([*command, "-X", "check.crcs=true"], capture_output=True, timeout=5, check=False)
        return list(done.stdout.splitlines())
    except subprocess.TimeoutExpired as expired:
        return list((expired.stdout or b"").splitlines())


@pytest.mark.parametrize("consume", [_by_confluent, _by_kafka_python, _by_kcat])
def test_s33_a_record_corrupted_on_disk_is_never_delivered(
    rotten_broker: Broker, consume: Callable[[Broker], list[bytes | None]]
) -> None:
    found = consume(rotten_broker)
    assert b"vAlue 2" not in found
    assert found[:2] == [b"value 0", b"value 1"]


def test_s33_records_around_a_corrupt_one_are_still_read(rotten_broker: Broker) -> None:
    assert [row.value() for row in read(rotten_broker, "t", 2)] == [b"value 0", b"value 1"]
    assert [row.value() for row in read(rotten_broker, "t", 2, offset=3)] == [b"value 3", b"value 4"]
    out = kcat("-C", "-q", "-b", rotten_broker.bootstrap, "-t", "t", "-o", "3", "-c", "2")
    assert out == b"value 3\nvalue 4\n"


def test_s33_spark_fails_on_a_corrupt_record_and_reads_the_others(rotten_broker: Broker, by_spark: BySpark) -> None:
    with pytest.raises(Exception, match=r"(?i)corrupt|crc"):
        by_spark(rotten_broker, "t")
    before = by_spark.values(rotten_broker, "t", {"endingOffsets": offsets("t", {0: 2})})
    after = by_spark.values(rotten_broker, "t", {"startingOffsets": offsets("t", {0: 3})})
    assert before + after == [b"value 0", b"value 1", b"value 3", b"value 4"]


@pytest.mark.ours
def test_s33_a_corrupt_batch_header_in_a_closed_segment_returns_corrupt_message(
    new_broker: NewBroker,
) -> None:
    """A real Kafka does not start with such a file."""
    broker = new_broker()
    with Wire(broker.address) as wire:
        wire.create_topic("t", configs={"segment.bytes": 1 << 20})
        for number in range(12):
            wire.produce("t", batches.batch([b"value %d" % number + b"." * 100_000]))
    broker.stop()
    path = broker.partition_dir("t") / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    start = data.index(b"value 7") - 71
    data[start + 8 : start + 12] = b"\0\0\0\1"
    path.write_bytes(data)
    broker.start()
    with Wire(broker.address) as wire:
        assert wire.fetch("t", 7).error_code == error_codes.CORRUPT_MESSAGE
        assert wire.end_offset("t") == 12
        assert batches.headers(wire.fetch("t", 6, partition_max_bytes=1).records)[0].base_offset == 6
        assert batches.headers(wire.fetch("t", 11).records)[0].base_offset == 11

"""The producer's side of a broker: S10–S12, S15, S17."""

from __future__ import annotations

import asyncio
from collections import Counter

import confluent_kafka
import kafka.partitioner.default
import pytest
from aiokafka import AIOKafkaProducer
from kafka import KafkaProducer

from conformance.clients.streams import READERS, kcat, write_by_kcat
from conformance.conftest import NewTopic
from conformance.data import batches
from conformance.data.dataset import flights, write_flights
from harness.clients.librdkafka import Deliveries, producer, read, write
from harness.peers import Java
from harness.protocol import error_codes
from harness.protocol.wire_client import Wire
from harness.servers.brokers import Broker
from harness.witnesses import used


@pytest.mark.parametrize("partition", [0, 3])
def test_s10_an_explicit_partition_is_honoured(broker: Broker, new_topic: NewTopic, partition: int) -> None:
    topic = new_topic(partitions=5)
    write(broker, topic, [b"x"] * 10, partition=partition, keys=[b"%d" % n for n in range(10)])
    with Wire(broker.address) as wire:
        ends = [wire.end_offset(topic, index) for index in range(5)]
    assert ends == [10 if index == partition else 0 for index in range(5)]


def test_s10_a_partition_that_does_not_exist_is_refused_by_the_broker(broker: Broker, topic: str) -> None:
    with Wire(broker.address) as wire:
        row = wire.produce(topic, batches.batch([b"x"]), partition=1)
        assert row.error_code == error_codes.UNKNOWN_TOPIC_OR_PARTITION


def test_s11_every_client_sends_a_key_to_the_same_partition(
    broker: Broker, new_topic: NewTopic, java: Java
) -> None:
    """10,000 keys through librdkafka, kafka-python, aiokafka and the Java producer; each topic holds them alike."""
    keys = sorted({line.split(b",")[11] + b"-" + line.split(b",")[10] for line in flights().splitlines()[1:40_000]})
    keys = keys[:10_000]
    assert len(keys) == 10_000
    topics = {name: new_topic(partitions=7) for name in ("librdkafka", "kafka-python", "aiokafka", "java")}
    write(broker, topics["librdkafka"], keys, keys=keys, partitioner="murmur2")
    _write_by_kafka_python(broker, topics["kafka-python"], keys)
    asyncio.run(_write_by_aiokafka(broker, topics["aiokafka"], keys))
    java(
        "org.apache.kafka.tools.ConsoleProducer",
        *("--bootstrap-server", broker.bootstrap, "--topic", topics["java"]),
        *("--reader-property", "parse.key=true", "--reader-property", "key.separator=|"),
        stdin=b"".join(key + b"|v\n" for key in keys),
    )
    placed = {name: _placement(broker, topic) for name, topic in topics.items()}
    assert set(placed["java"]) == set(keys)
    for name in topics:
        assert placed[name] == placed["java"], name


def test_s11_murmur2_returns_the_values_of_kafkas_own_tests() -> None:
    """Kafka's UtilsTest lists these values, so the test above is not the only witness."""
    murmur2 = kafka.partitioner.default.murmur2
    known = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536}
    for key, value in known.items():
        assert murmur2(key) & 0xFFFFFFFF == value & 0xFFFFFFFF


def _write_by_kafka_python(broker: Broker, topic: str, keys: list[bytes]) -> None:
    used("kafka-python")
    client = KafkaProducer(bootstrap_servers=broker.bootstrap, linger_ms=50)
    for key in keys:
        client.send(topic, value=b"v", key=key)
    client.close()


async def _write_by_aiokafka(broker: Broker, topic: str, keys: list[bytes]) -> None:
    used("aiokafka")
    client = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, linger_ms=50)
    await client.start()
    try:
        await asyncio.gather(*[await client.send(topic, b"v", key=key) for key in keys])
    finally:
        await client.stop()


def _placement(broker: Broker, topic: str) -> dict[bytes, int]:
    """Returns the partition of each key, as the broker holds them."""
    found: dict[bytes, int] = {}
    with Wire(broker.address) as wire:
        ends = [wire.end_offset(topic, partition) for partition in range(7)]
    for partition, end in enumerate(ends):
        for message in read(broker, topic, end, partition):
            found[bytes(message.key() or b"")] = partition
    return found


def test_s12_records_without_a_key_go_round_robin_if_configured(
    broker: Broker, new_topic: NewTopic, java: Java
) -> None:
    topic = new_topic(partitions=3)
    java(
        "org.apache.kafka.tools.ConsoleProducer",
        *("--bootstrap-server", broker.bootstrap, "--topic", topic, "--timeout", "0"),
        *("--command-property", "partitioner.class=org.apache.kafka.clients.producer.RoundRobinPartitioner"),
        stdin="".join(f"{number}\n" for number in range(300)),
    )
    with Wire(broker.address) as wire:
        ends = [wire.end_offset(topic, partition) for partition in range(3)]
    assert sum(ends) == 300
    assert max(ends) - min(ends) <= 2


@pytest.mark.nightly
def test_s15_compression_shrinks_the_log_and_every_client_reads_it(
    broker: Broker, new_topic: NewTopic, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = write_flights(tmp_path_factory.mktemp("s15") / "flights.csv", lines=50_000)
    sizes = {}
    for codec in batches.CODEC_NAMES:
        topic = new_topic()
        write_by_kcat(broker, topic, path, codec)
        for name, reader in READERS.items():
            assert reader(broker, topic, 50_000) == path.read_bytes(), (codec, name)
        sizes[codec] = sum(file.stat().st_size for file in broker.partition_dir(topic).glob("*.log"))
    for codec in batches.CODEC_NAMES[1:]:
        assert sizes[codec] < 0.6 * sizes["none"], sizes


@pytest.mark.parametrize("codec", batches.CODEC_NAMES[1:])
def test_s15_a_topics_own_codec_replaces_the_producers(
    broker: Broker, new_topic: NewTopic, codec: str
) -> None:
    topic = new_topic(compression_type=codec)
    lines = flights().splitlines()[:1_000]
    write(broker, topic, lines, compression_type="none")
    with Wire(broker.address) as wire:
        records = wire.fetch(topic, 0).records
    assert {header.codec for header in batches.headers(records)} == {batches.CODEC_NAMES.index(codec)}
    assert [message.value() for message in read(broker, topic, 1_000)] == lines


def test_s15_an_uncompressed_topic_decompresses_batches_of_producers(
    broker: Broker, new_topic: NewTopic
) -> None:
    topic = new_topic(compression_type="uncompressed")
    write(broker, topic, [b"a" * 1_000] * 10, compression_type="zstd")
    with Wire(broker.address) as wire:
        records = wire.fetch(topic, 0).records
    assert {header.codec for header in batches.headers(records)} == {batches.NONE}
    assert [message.value() for message in read(broker, topic, 10)] == [b"a" * 1_000] * 10


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_s17_records_sent_without_waiting_arrive(broker: Broker, topic: str, acks: str) -> None:
    client = producer(broker, acks=acks)
    for number in range(100):
        client.produce(topic, b"%d" % number)
    assert client.flush(90) == 0
    assert [message.value() for message in read(broker, topic, 100)] == [b"%d" % n for n in range(100)]


def test_s17_a_synchronous_send_returns_the_metadata_of_the_record(broker: Broker, topic: str) -> None:
    used("kafka-python")
    client = KafkaProducer(bootstrap_servers=broker.bootstrap, acks="all")
    before = batches.now_ms()
    for number in range(3):
        metadata = client.send(topic, b"x", partition=0).get(timeout=90)
        assert (metadata.topic, metadata.partition, metadata.offset) == (topic, 0, number)
        assert before <= metadata.timestamp <= batches.now_ms()
    client.close()


def test_s17_an_asynchronous_send_calls_back_in_order(broker: Broker, topic: str) -> None:
    reports = Deliveries()
    client = producer(broker, acks="all", linger_ms=5)
    for number in range(1_000):
        client.produce(topic, b"%d" % number, on_delivery=reports)
    assert client.flush(90) == 0
    assert not reports.errors
    assert [message.offset() for message in reports.messages] == list(range(1_000))
    assert Counter(message.partition() for message in reports.messages) == {0: 1_000}


def test_s17_a_record_that_is_too_large_fails_at_once(broker: Broker, new_topic: NewTopic) -> None:
    topic = new_topic(max_message_bytes=1_000)
    reports = Deliveries()
    client = producer(broker, acks="all")
    client.produce(topic, b"x" * 2_000, on_delivery=reports)
    assert client.flush(60) == 0  # A client would retry this for five minutes.
    assert [error.code() for error in reports.errors] == [confluent_kafka.KafkaError.MSG_SIZE_TOO_LARGE]


@pytest.mark.nightly
def test_s17_kcat_writes_keys_headers_and_nulls_that_kcat_reads_back(
    broker: Broker, topic: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("s17") / "records"
    path.write_text("k1:v1\nk2:\n")
    kcat("-P", "-b", broker.bootstrap, "-t", topic, "-K:", "-Z", "-H", "a=b", stdin=path)
    shown = kcat(
        *("-C", "-q", "-b", broker.bootstrap, "-t", topic, "-o", "beginning", "-c", "2"),
        *("-Z", "-f", "%o %k %s %h\n"),
    )
    assert shown == b"0 k1 v1 a=b\n1 k2 NULL a=b\n"

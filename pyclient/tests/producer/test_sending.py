"""The producer, as an application uses it."""

from __future__ import annotations

import threading
from collections import defaultdict

import pyarrow
import pytest
from confluent_kafka import Consumer as Foreign
from confluent_kafka import TopicPartition as ForeignPlace

from pyclient import ConfigError, Producer, TopicPartition
from pyclient.errors import BufferExhausted, ClientClosed, ConnectionFailed, KafkaError
from pyclient.protocol.errors import InvalidRecord, MessageTooLarge
from pyclient.tests.support import PATIENCE_S, patiently, read_all

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def foreign_values(bootstrap: str, topic: str, count: int) -> list[bytes]:
    """Returns the values that librdkafka reads from partition 0."""
    consumer = Foreign({"bootstrap.servers": bootstrap, "group.id": "unused", "check.crcs": True})
    consumer.assign([ForeignPlace(topic, 0, 0)])
    found: list[bytes] = []
    for _ in patiently(lambda: f"{len(found)} of {count} records came"):
        if len(found) == count:
            break
        message = consumer.poll(0.5)
        if message is not None:
            assert message.error() is None
            found.append(message.value())
    consumer.close()
    return found


def send_much(producer: Producer) -> None:
    for _ in range(200):
        producer.send("t", value=bytes(1000))


def test_a_synchronous_send_returns_partition_and_offset(producer, topic):
    for number in range(3):
        metadata = producer.send(topic, value=b"v", timestamp=1_700_000_000_000 + number).result(timeout=PATIENCE_S)
        assert (metadata.topic, metadata.partition, metadata.offset) == (topic, 0, number)
        assert metadata.timestamp == 1_700_000_000_000 + number


def test_send_and_wait_returns_partition_and_offset_or_raises(producer, new_topic):
    topic = new_topic(1, {"max.message.bytes": "1000"})
    metadata = producer.send_and_wait(topic, b"v", b"k", partition=0, headers={"h": b"1"}, timeout=PATIENCE_S)
    assert (metadata.topic, metadata.partition, metadata.offset) == (topic, 0, 0)
    with pytest.raises(KafkaError, match=topic):
        producer.send_and_wait(topic, b"x" * 2000)


def test_each_callback_is_called_once_in_order_with_metadata(broker, topic):
    seen = []
    with Producer(broker.bootstrap) as producer:
        for _ in range(1000):
            producer.send(topic, value=b"x", on_delivery=lambda *told: seen.append(told))
    assert [metadata.offset for metadata, _ in seen] == list(range(1000))
    assert all(error is None for _, error in seen)


def test_a_callback_that_raises_does_not_affect_others(broker, topic):
    def bad(metadata: object, error: object) -> None:
        raise ZeroDivisionError

    with Producer(broker.bootstrap) as producer:
        producer.send(topic, value=b"1", on_delivery=bad)
        assert producer.send(topic, value=b"2").result(PATIENCE_S).offset == 1


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_is_read_by_pyclient_and_librdkafka(broker, topic, codec):
    values = [b"%d-" % number * (number % 50) for number in range(2000)]
    with Producer(broker.bootstrap, compression_type=codec) as producer:
        assert producer.send_many(topic, values).result(PATIENCE_S) == len(values)
    assert [bytes(record.value) for record in read_all(broker.bootstrap, topic)] == values
    assert foreign_values(broker.bootstrap, topic, len(values)) == values


def test_null_and_empty_values_headers_and_timestamps_are_preserved(broker, producer, topic):
    headers = [("a", b"1"), ("a", None), ("", b"")]
    producer.send(topic, value=None, key=None)
    producer.send(topic, value=b"", key=b"", headers=headers, timestamp=1_700_000_000_123)
    producer.flush(PATIENCE_S)
    first, second = read_all(broker.bootstrap, topic)
    assert (first.value, first.key, first.headers) == (None, None, [])
    assert (second.value, second.key, second.headers, second.timestamp) == (b"", b"", headers, 1_700_000_000_123)


def test_key_without_a_value_is_sent_as_a_null(broker, producer, topic):
    producer.send(topic, key=b"k").result(PATIENCE_S)
    [record] = read_all(broker.bootstrap, topic)
    assert (record.key, record.value) == (b"k", None)


def test_send_many_takes_arrow_with_nulls_and_keys(broker, producer, new_topic):
    topic = new_topic(3)
    values = pyarrow.array([b"a", None, b"c"] * 500, pyarrow.binary())
    keys = pyarrow.array([b"%d" % number for number in range(1500)], pyarrow.binary())
    assert producer.send_many(topic, values, keys).result(PATIENCE_S) == 1500
    found = {bytes(record.key): record.value for record in read_all(broker.bootstrap, topic, 3)}
    assert found == dict(zip(keys.to_pylist(), values.to_pylist(), strict=True))


def test_keys_go_to_the_same_partition_as_in_kafka(producer, new_topic):
    """murmur2 of Kafka's own UtilsTest: foobar, 21, a-little-bit-long-string."""
    topic = new_topic(10)
    hashes = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536}
    for key, murmur2 in hashes.items():
        assert producer.send(topic, value=b"", key=key).result(PATIENCE_S).partition == (murmur2 & 0x7FFFFFFF) % 10


def test_records_of_each_thread_keep_their_order(broker, new_topic):
    topic = new_topic(2)

    def work(producer: Producer, name: int) -> None:
        for number in range(2000):
            producer.send(topic, value=b"%d" % number, key=b"%d" % name, partition=name % 2)

    with Producer(broker.bootstrap, linger_ms=1) as producer:
        threads = [threading.Thread(target=work, args=(producer, name)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = defaultdict(list)
    for record in read_all(broker.bootstrap, topic, 2):
        found[bytes(record.key)].append(int(record.value))
    assert found == {b"%d" % name: list(range(2000)) for name in range(4)}


def test_send_names_the_unreachable_broker_after_max_block_ms():
    told = r"127\.0\.0\.1:1: connect failed.* s; the limit is max\.block\.ms; `pybroker doctor -b 127\.0\.0\.1:1` "
    with (
        Producer("127.0.0.1:1", buffer_memory=32_768, max_block_ms=500) as producer,
        pytest.raises(ConnectionFailed, match=told),
    ):
        producer.send("t", value=bytes(1000))


def test_send_and_wait_names_the_unreachable_broker_after_its_own_timeout():
    told = r"127\.0\.0\.1:1: connect failed.* \(still failing after 0\.\d+ s\)$"
    with Producer("127.0.0.1:1") as producer, pytest.raises(ConnectionFailed, match=told):
        producer.send_and_wait("t", b"v", timeout=0.3)


def test_send_waits_for_a_full_buffer_while_the_broker_accepts_records(broker, topic):
    with Producer(broker.bootstrap, buffer_memory=65_536, batch_size=8192) as producer:
        reports = [producer.send(topic, value=bytes(1000)) for _ in range(2000)]
        producer.flush(PATIENCE_S)
        assert [report.metadata.offset for report in reports] == list(range(2000))


def test_the_buffer_of_a_stopped_broker_is_exhausted(own_broker):
    with Producer(
        own_broker.bootstrap, buffer_memory=65_536, max_block_ms=300, delivery_timeout_ms=60_000, linger_ms=0
    ) as producer:
        producer.partitions_for("t", PATIENCE_S)
        producer.send("t", value=b"known").result(PATIENCE_S)
        own_broker.kill()
        with pytest.raises(BufferExhausted, match=r"buffer.memory=65536"):
            send_much(producer)
        producer.close(timeout=0)


def test_close_with_timeout_0_fails_undelivered_records(own_broker):
    producer = Producer(own_broker.bootstrap, linger_ms=0)
    producer.send("t", value=b"known").result(PATIENCE_S)
    own_broker.kill()
    report = producer.send("t", value=b"lost")
    producer.close(timeout=0)
    with pytest.raises(KafkaError):
        report.result(PATIENCE_S)
    with pytest.raises(ClientClosed):
        producer.send("t", value=b"late")


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_each_setting_of_acks_delivers_a_record(broker, topic, acks):
    with Producer(broker.bootstrap, acks=acks) as producer:
        metadata = producer.send(topic, value=b"v").result(PATIENCE_S)
        assert metadata.offset == (-1 if acks == "0" else 0)


def test_a_record_larger_than_the_broker_accepts_fails(broker, producer, new_topic):
    topic = new_topic(1, {"max.message.bytes": "1000"})
    with pytest.raises(KafkaError) as told:
        producer.send(topic, value=bytes(5000)).result(PATIENCE_S)
    assert isinstance(told.value, MessageTooLarge)
    assert producer.send(topic, value=b"small").result(PATIENCE_S).offset == 0


def test_a_batch_larger_than_the_broker_accepts_is_split(broker, new_topic):
    topic = new_topic(1, {"max.message.bytes": "3000"})
    values = [b"%03d" % number * 100 for number in range(100)]
    with Producer(broker.bootstrap, batch_size=65_536, linger_ms=50) as producer:
        producer.send_many(topic, values).result(PATIENCE_S)
    assert [bytes(record.value) for record in read_all(broker.bootstrap, topic)] == values


def test_a_null_key_in_a_compacted_topic_fails_only_that_record(producer, new_topic):
    topic = new_topic(1, {"cleanup.policy": "compact"})
    with pytest.raises(KafkaError) as told:
        producer.send(topic, value=b"v").result(PATIENCE_S)
    assert isinstance(told.value, InvalidRecord)
    assert producer.send(topic, value=b"v", key=b"k").result(PATIENCE_S).offset == 0


def test_the_error_about_an_unknown_setting_suggests_the_right_one():
    with pytest.raises(ConfigError, match="did you mean linger_ms"):
        Producer("localhost:9092", lingr_ms=5)


def test_a_send_to_a_missing_partition_is_refused(producer, topic):
    with pytest.raises(KafkaError, match="1 partition"):
        producer.send(topic, value=b"v", partition=7)


def test_serializers_can_be_given_by_name(broker, topic):
    with Producer(broker.bootstrap, key_serializer="str", value_serializer="json") as producer:
        producer.send(topic, value={"a": [1, None]}, key="ä").result(PATIENCE_S)
    (record,) = read_all(broker.bootstrap, topic, key_deserializer="str", value_deserializer="json")
    assert (record.key, record.value) == ("ä", {"a": [1, None]})


def test_offsets_of_producer_agree_with_the_admin(admin, producer, topic):
    last = [producer.send(topic, value=b"x") for _ in range(10)][-1].result(PATIENCE_S)
    place = TopicPartition(topic, 0)
    assert admin.list_offsets({place: -1})[place].offset == last.offset + 1

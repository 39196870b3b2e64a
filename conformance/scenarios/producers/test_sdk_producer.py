"""S10–S21 with our own producer. What it wrote is read, placed or decoded by foreign clients."""

from __future__ import annotations

import io
import json
import os
import select
import signal
import socket
import statistics
import time
from collections import Counter
from collections.abc import Callable
from itertools import groupby, pairwise
from typing import Any

import fastavro
import pyarrow
import pytest

from conformance.clients.streams import READERS
from conformance.conftest import Counted, NewBroker, NewTopic
from conformance.data import batches
from conformance.data.dataset import flights
from conformance.scenarios.by_spark import BySpark
from harness.clients.librdkafka import read, write
from harness.faults.proxy import FaultProxy
from harness.peers import Java
from harness.protocol.wire_client import Wire
from harness.servers.brokers import Broker
from harness.waiting import until
from harness.witnesses import used
from pyclient import Producer
from pyclient.errors import BufferExhausted, ConfigError, KafkaError
from pyclient.serialization import AvroSerializer

PATIENCE_S = 90.0
PARTITIONS = 7
#: Kafka's default, as the documents name it.
BATCH_SIZE = 16_384


@pytest.fixture(autouse=True)
def _ours() -> None:
    used("pyclient")


def ends(broker: Broker, topic: str, partitions: int) -> list[int]:
    with Wire(broker.address) as wire:
        return [wire.end_offset(topic, partition) for partition in range(partitions)]


def batches_of(broker: Broker, topic: str) -> list[batches.Header]:
    """Returns the headers of partition 0. A request has one batch per partition, so this counts requests too."""
    found: list[batches.Header] = []
    with Wire(broker.address) as wire:
        end = wire.end_offset(topic)
        while not found or found[-1].next_offset < end:
            offset = found[-1].next_offset if found else 0
            found += batches.headers(wire.fetch(topic, offset).records)
    return found


def placed(broker: Broker, topic: str) -> dict[bytes, int]:
    """Returns the partition of each key as the broker holds them, read by librdkafka."""
    return {
        bytes(message.key() or b""): partition
        for partition, end in enumerate(ends(broker, topic, PARTITIONS))
        for message in (read(broker, topic, end, partition) if end else [])
    }


# -- partitions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("partition", [0, 3])
def test_s10_an_explicit_partition_is_honoured(
    broker: Broker, new_topic: NewTopic, partition: int, by_spark: BySpark
) -> None:
    topic = new_topic(partitions=5)
    with Producer(broker.bootstrap) as producer:
        for number in range(10):
            producer.send(topic, value=b"x", key=b"%d" % number, partition=partition)
    assert ends(broker, topic, 5) == [10 if index == partition else 0 for index in range(5)]
    assert [(row.partition, row.key) for row in by_spark(broker, topic)] == [(partition, b"%d" % n) for n in range(10)]


def test_s10_a_partition_that_does_not_exist_is_an_error_of_the_call(broker: Broker, topic: str) -> None:
    with Producer(broker.bootstrap) as producer, pytest.raises(KafkaError, match="1 partition"):
        producer.send(topic, value=b"x", partition=1)


def test_s11_our_keys_go_where_javas_and_librdkafkas_go(
    broker: Broker, new_topic: NewTopic, java: Java, by_spark: BySpark, counted: Counted
) -> None:
    """10,000 keys of the real file go by ``send``, ``send_many`` and Arrow, and by two foreign producers."""
    lines = [line.split(b",") for line in flights().splitlines()[1:40_000]]
    keys = sorted({fields[11] + b"-" + fields[10] for fields in lines})[:10_000]
    assert len(keys) == 10_000
    ours = {name: new_topic(partitions=PARTITIONS) for name in ("send", "send_many", "arrow")}
    theirs = {name: new_topic(partitions=PARTITIONS) for name in ("java", "librdkafka")}
    with Producer(broker.bootstrap) as producer:
        for key in keys:
            producer.send(ours["send"], value=b"v", key=key)
        producer.send_many(ours["send_many"], [b"v"] * len(keys), keys)
        columns = [pyarrow.array(column, pyarrow.binary()) for column in ([b"v"] * len(keys), keys)]
        producer.send_many(ours["arrow"], *columns)
    write(broker, theirs["librdkafka"], keys, keys=keys, partitioner="murmur2")
    java(
        "org.apache.kafka.tools.ConsoleProducer",
        *("--bootstrap-server", broker.bootstrap, "--topic", theirs["java"]),
        *("--reader-property", "parse.key=true", "--reader-property", "key.separator=|"),
        stdin=b"".join(key + b"|v\n" for key in keys),
    )
    expected = placed(broker, theirs["java"])
    assert set(expected) == set(keys)
    assert placed(broker, theirs["librdkafka"]) == expected
    for name, topic in ours.items():
        assert placed(broker, topic) == expected, name
    assert {row.key: row.partition for row in by_spark(broker, ours["arrow"])} == expected
    counted(keys=len(keys), producers=5, partitions=PARTITIONS)


def test_s12_records_without_a_key_go_round_robin_if_configured(
    broker: Broker, new_topic: NewTopic, by_spark: BySpark
) -> None:
    topic = new_topic(partitions=3)
    with Producer(broker.bootstrap, partitioner_class="round_robin") as producer:
        sent = [producer.send(topic, value=b"%d" % number) for number in range(300)]
    assert all(after.partition == (before.partition + 1) % 3 for before, after in pairwise(sent))
    assert ends(broker, topic, 3) == [100, 100, 100]
    assert Counter(row.partition for row in by_spark(broker, topic)) == {0: 100, 1: 100, 2: 100}


def test_s13_records_without_a_key_stay_on_a_partition_until_the_batch_is_full(
    broker: Broker, new_topic: NewTopic, by_spark: BySpark
) -> None:
    topic, size = new_topic(partitions=4), 1_000
    with Producer(broker.bootstrap, linger_ms=60_000) as producer:
        sent = [producer.send(topic, value=bytes(size)) for _ in range(400)]
        producer.flush(PATIENCE_S)
    runs = [len(list(run)) for _, run in groupby(report.partition for report in sent)]
    assert len(runs) > 10
    assert all(count * size <= BATCH_SIZE + size for count in runs)
    assert {report.partition for report in sent} == set(range(4))
    assert sum(ends(broker, topic, 4)) == 400
    rows = by_spark(broker, topic)
    assert Counter(row.partition for row in rows) == Counter(report.partition for report in sent)


def test_s13_another_partition_is_chosen_after_linger(broker: Broker, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=4)
    with Producer(broker.bootstrap, linger_ms=1) as producer:
        taken = [producer.send(topic, value=b"x").result(PATIENCE_S).partition for _ in range(40)]
    assert all(before != after for before, after in pairwise(taken))


# -- batches ---------------------------------------------------------------------------------------


@pytest.mark.nightly
def test_s14_a_longer_linger_causes_fewer_requests(
    broker: Broker, new_topic: NewTopic, counted: Counted
) -> None:
    """Sends a record per millisecond. The time from ``send`` to the callback is reported, not judged."""

    def paced(topic: str, count: int, linger_ms: int) -> list[float]:
        """Sends a record per millisecond; returns the seconds from each ``send`` to its callback."""
        delays: list[float] = []
        with Producer(broker.bootstrap, linger_ms=linger_ms) as producer:
            producer.partitions_for(topic)
            for _ in range(count):
                start = time.perf_counter()

                def delivered(metadata: object, error: object, start: float = start) -> None:
                    delays.append(time.perf_counter() - start)

                producer.send(topic, value=bytes(100), on_delivery=delivered)
                time.sleep(0.001)
        assert len(delays) == count
        return delays

    requests = {}
    for linger_ms in (0, 5, 100):
        topic = new_topic()
        delays = paced(topic, 300, linger_ms)
        requests[linger_ms] = len(batches_of(broker, topic))
        latency_ms = round(statistics.median(delays) * 1000, 2)
        counted(f"linger.ms={linger_ms}", records=300, requests=requests[linger_ms], ms_to_the_ack=latency_ms)
    assert requests[100] < requests[5]
    assert requests[100] < requests[0] / 2


def test_s14_a_larger_batch_size_causes_larger_requests(
    broker: Broker, new_topic: NewTopic, counted: Counted
) -> None:
    """Before the end, only its size sends a batch, so all batches but the last are full."""
    count, record = 200, 500
    requests = {}
    for batch_size in (0, 2_000, BATCH_SIZE, 100_000):
        topic = new_topic()
        with Producer(broker.bootstrap, linger_ms=60_000, batch_size=batch_size) as producer:
            for _ in range(count):
                report = producer.send(topic, value=bytes(record))
                if not batch_size:
                    report.result(PATIENCE_S)
        found = batches_of(broker, topic)
        assert sum(header.count for header in found) == count
        assert all(header.size > batch_size - 2 * record for header in found[:-1])
        requests[batch_size] = len(found)
        counted(f"batch.size={batch_size}", records=count, requests=len(found))
    assert requests[0] == count
    assert requests[2_000] < count / 2
    assert requests[BATCH_SIZE] <= 8
    assert requests[100_000] <= 2


def test_s15_every_codec_shrinks_the_log_and_every_client_reads_it(
    broker: Broker, new_topic: NewTopic, by_spark: BySpark, counted: Counted
) -> None:
    """One partition holds batches of all codecs, which every client reads."""
    lines = flights().splitlines()[:10_000]
    together, sizes = new_topic(), {}
    for codec in batches.CODEC_NAMES:
        topic = new_topic()
        with Producer(broker.bootstrap, compression_type=codec, batch_size=100_000, linger_ms=50) as producer:
            producer.send_many(topic, lines)
            producer.send_many(together, lines)
        sizes[codec] = sum(file.stat().st_size for file in broker.partition_dir(topic).glob("*.log"))
    assert all(sizes[codec] < 0.6 * sizes["none"] for codec in batches.CODEC_NAMES[1:]), sizes
    assert {header.codec for header in batches_of(broker, together)} == set(range(5))
    expected = b"".join(line + b"\n" for line in lines) * 5
    for name, reader in READERS.items():
        assert reader(broker, together, 50_000) == expected, name
    assert by_spark.values(broker, together) == lines * 5
    counted("bytes on disk of 10,000 flights", **sizes)


# -- waiting, ways, errors -------------------------------------------------------------------------


def send_until_full(producer: Producer, topic: str, accepted: list[bytes]) -> None:
    """Sends until the producer refuses, and returns what it accepted."""
    for number in range(10_000):
        value = b"%05d" % number * 200
        producer.send(topic, value=value)
        accepted.append(value)


def test_s16_a_send_to_a_full_buffer_waits_and_then_fails_and_no_record_is_lost(new_broker: NewBroker) -> None:
    own = new_broker()
    settings: dict[str, Any] = {"buffer_memory": 100_000, "max_block_ms": 500, "delivery_timeout_ms": 120_000}
    accepted: list[bytes] = []
    with Producer(own.bootstrap, **settings) as producer:
        until(lambda: producer.partitions_for("t", PATIENCE_S), "the topic")
        os.kill(own.pid, signal.SIGSTOP)
        start = time.monotonic()
        try:
            with pytest.raises(BufferExhausted, match=r"buffer\.memory=100000 .*max\.block\.ms=500"):
                send_until_full(producer, "t", accepted)
        finally:
            os.kill(own.pid, signal.SIGCONT)
        assert time.monotonic() - start >= 0.5
        assert 50 <= len(accepted) <= 100
        producer.flush(PATIENCE_S)
    assert [message.value() for message in read(own, "t", len(accepted))] == accepted


def test_s17_records_are_sent_synchronously_asynchronously_and_without_waiting(broker: Broker, topic: str) -> None:
    told: list[tuple[Any, Any]] = []
    before = batches.now_ms()
    with Producer(broker.bootstrap) as producer:
        producer.send(topic, value=b"forgotten")
        metadata = producer.send(topic, value=b"waited for").result(PATIENCE_S)
        producer.send(topic, value=b"called back", on_delivery=lambda *what: told.append(what))
    assert (metadata.topic, metadata.partition, metadata.offset) == (topic, 0, 1)
    assert before <= metadata.timestamp <= batches.now_ms()
    ((called, error),) = told
    assert (called.offset, error) == (2, None)
    assert [message.value() for message in read(broker, topic, 3)] == [b"forgotten", b"waited for", b"called back"]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_s17_records_sent_without_waiting_arrive_in_order(broker: Broker, topic: str, acks: str) -> None:
    values = [b"%d" % number for number in range(100)]
    with Producer(broker.bootstrap, acks=acks) as producer:
        for value in values:
            producer.send(topic, value=value)
    assert [message.value() for message in read(broker, topic, 100)] == values


def test_s18_the_application_does_not_notice_a_temporary_loss_of_the_leader(new_broker: NewBroker) -> None:
    own = new_broker()
    values = [b"%d" % number for number in range(2_000)]
    with Producer(own.bootstrap, linger_ms=1) as producer:
        reports = []
        for number, value in enumerate(values):
            reports.append(producer.send("t", value=value))
            if number == 1_000:
                reports[500].result(PATIENCE_S)
                own.kill()
                own.start()
        assert [report.result(PATIENCE_S).offset for report in reports] == list(range(2_000))
    assert [message.value() for message in read(own, "t", 2_000)] == values


def test_s18_a_record_that_is_too_large_fails_at_once(broker: Broker, new_topic: NewTopic) -> None:
    topic = new_topic(max_message_bytes=1_000)
    with Producer(broker.bootstrap, max_request_size=5_000) as producer:
        with pytest.raises(KafkaError) as told:
            producer.send(topic, value=bytes(2_000)).result(PATIENCE_S)
        assert (told.value.code, told.value.retriable) == (10, False)
        with pytest.raises(ValueError, match=r"max\.request\.size"):
            producer.send(topic, value=bytes(6_000))
        assert producer.send(topic, value=b"small").result(PATIENCE_S).offset == 0


def test_s18_exhausted_retries_raise_the_last_error(proxied: tuple[Broker, FaultProxy]) -> None:
    """Every acknowledgement is lost: those of the first attempt and of two retries."""
    _, proxy = proxied
    quick = {"retry_backoff_ms": 10, "reconnect_backoff_ms": 10}
    settings: dict[str, Any] = {"retries": 2, "enable_idempotence": False, **quick}
    with Producer(proxy.bootstrap, **settings) as producer:
        producer.partitions_for("t", PATIENCE_S)
        proxy.lose_replies()
        with pytest.raises(KafkaError) as told:
            producer.send("t", value=b"x").result(PATIENCE_S)
        assert proxy.bootstrap in str(told.value)
        assert "Produce" in str(told.value)
        assert len(proxy.lost) == 3
        proxy.heal()
        assert producer.send("t", value=b"y").result(PATIENCE_S).offset == 3


# -- interceptors, serializers, settings -----------------------------------------------------------


class Stamp:
    """The documents' example: puts the time before the value, and counts the records' outcomes."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.config: dict[str, object] = {}

    def configure(self, config: dict[str, object]) -> None:
        self.config = config

    def on_send(self, record: Any) -> Any:
        record.value = b"%d,%s" % (batches.now_ms(), record.value)
        return record

    def on_acknowledgement(self, metadata: object, error: object) -> None:
        self.counts["success" if error is None else "error"] += 1

    def close(self) -> None:
        self.counts["closed"] += 1


@pytest.mark.parametrize("many", [False, True])
def test_s19_interceptors_change_count_and_are_configured_and_closed(
    broker: Broker, new_topic: NewTopic, many: bool
) -> None:
    topic, stamp = new_topic(max_message_bytes=1_000), Stamp()
    before = batches.now_ms()
    with Producer(broker.bootstrap, interceptor_classes=[stamp], client_id="s19", linger_ms=0) as producer:
        if many:
            producer.send_many(topic, [b"flight-%d" % number for number in range(10)])
        else:
            for number in range(10):
                producer.send(topic, value=b"flight-%d" % number)
        producer.flush(PATIENCE_S)
        with pytest.raises(KafkaError):
            producer.send(topic, value=bytes(2_000)).result(PATIENCE_S)
    assert stamp.counts == {"success": 10, "error": 1, "closed": 1}
    assert stamp.config["client.id"] == "s19"
    for number, message in enumerate(read(broker, topic, 10)):
        stamped, value = (message.value() or b"").split(b",")
        assert value == b"flight-%d" % number
        assert before <= int(stamped) <= batches.now_ms()


def test_s19_a_failing_interceptor_does_not_affect_the_send(broker: Broker, topic: str) -> None:
    class Broken:
        def on_send(self, record: object) -> object:
            raise ZeroDivisionError

        def on_acknowledgement(self, metadata: object, error: object) -> None:
            raise ZeroDivisionError

    with Producer(broker.bootstrap, interceptor_classes=[Broken, Stamp]) as producer:
        assert producer.send(topic, value=b"x").result(PATIENCE_S).offset == 0
    assert (read(broker, topic, 1)[0].value() or b"").endswith(b",x")


FLIGHT = {
    "type": "record",
    "name": "Flight",
    "fields": [{"name": "carrier", "type": "string"}, {"name": "delay", "type": ["null", "int"]}],
}


def avro(data: bytes) -> Any:
    """Decodes by fastavro, the witness."""
    return fastavro.schemaless_reader(io.BytesIO(data), FLIGHT, None)


@pytest.mark.parametrize(
    ("serializer", "value", "decode"),
    [
        ("str", "Zürich", lambda data: data.decode()),
        ("json", {"carrier": "UA", "delay": None}, json.loads),
        (AvroSerializer(FLIGHT), {"carrier": "UA", "delay": 7}, avro),
        (AvroSerializer(FLIGHT, schema_id=258), {"carrier": "UA", "delay": None}, lambda data: avro(data[5:])),
        (lambda topic, number: number.to_bytes(4), 77, int.from_bytes),
    ],
    ids=["str", "json", "avro", "avro-registry", "own"],
)
def test_s20_other_libraries_decode_the_output_of_a_serializer(
    broker: Broker, topic: str, serializer: Any, value: Any, decode: Callable[[bytes], Any]
) -> None:
    with Producer(broker.bootstrap, value_serializer=serializer, key_serializer="str") as producer:
        producer.send(topic, value=value, key="k")
        producer.send_many(topic, [value, None], ["k", "k"])
    messages = read(broker, topic, 3)
    assert [message.key() for message in messages] == [b"k"] * 3
    assert [decode(message.value() or b"") for message in messages[:2]] == [value, value]
    assert messages[2].value() is None


def test_s20_the_registry_prefix_is_a_zero_byte_and_the_schema_id(broker: Broker, topic: str) -> None:
    with Producer(broker.bootstrap, value_serializer=AvroSerializer(FLIGHT, schema_id=258)) as producer:
        producer.send(topic, value={"carrier": "UA", "delay": None})
    assert (read(broker, topic, 1)[0].value() or b"")[:5] == b"\0\0\0\1\2"


def test_s21_the_documented_settings_are_accepted_by_name(broker: Broker, topic: str) -> None:
    config = {
        "bootstrap.servers": broker.bootstrap,
        "batch.size": 32_768,
        "linger.ms": 20,
        "buffer.memory": 33_554_432,
        "client.id": "s21",
        "acks": "all",
        "retries": 3,
        "compression.type": "gzip",
    }
    with Producer(config=config) as producer:
        producer.send_many(topic, [b"x" * 100] * 100)
    (header,) = batches_of(broker, topic)
    assert (header.count, batches.CODEC_NAMES[header.codec]) == (100, "gzip")
    with pytest.raises(ConfigError, match=r"buffer\.memory"):
        Producer(config={**config, "buffer.memroy": 1})


def test_s21_the_client_id_is_what_brokers_see() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with Producer(f"127.0.0.1:{listener.getsockname()[1]}", client_id="s21-client") as producer:

            def said() -> bool:
                """Returns whether the client has tried to connect; no broker answers it."""
                with pytest.raises(KafkaError):
                    producer.connect(timeout=0.5)
                return bool(select.select([listener], [], [], 0)[0])

            until(said, "a connection")
            connection, _ = listener.accept()
        with connection:
            connection.settimeout(PATIENCE_S)
            assert b"s21-client" in connection.recv(4096)

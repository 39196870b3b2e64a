"""``spark.read.format("pybroker")``: rows are those that librdkafka wrote, and each option does what it says."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from conformance.conftest import NewTopic
from conformance.spark.source import PUSHES_FILTERS, Source, cut, fill
from harness.protocol.wire_client import Wire
from harness.servers.brokers import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.ours
NOON_MS = 1_700_000_000_000


@pytest.fixture
def source(spark: SparkSession, broker: Broker, tmp_path: Path) -> Source:
    return Source(spark, broker, tmp_path)


@pytest.fixture(scope="module")
def numbers(broker: Broker) -> str:
    """Writes 0 to 299 into three partitions, a hundred each; each number's time is that many seconds after NOON_MS."""
    with Wire(broker.address) as wire:
        wire.create_topic("spark-numbers", 3, {})
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(300):
        when = NOON_MS + 1000 * number
        producer.produce("spark-numbers", b"%d" % number, partition=number // 100, timestamp=when)
    assert producer.flush(60) == 0
    return "spark-numbers"


def counted(*numbers: int) -> list[str]:
    return [str(number) for number in numbers]


def per_partition(topic: str, *values: int) -> str:
    return json.dumps({topic: {str(number): value for number, value in enumerate(values)}})


def test_a_record_is_a_row_with_all_its_columns(source: Source, broker: Broker, topic: str) -> None:
    headers = [("a", b"1"), ("b", None), ("a", b"")]
    fill(broker, topic, ["v"], key=b"\x00k", timestamp=NOON_MS, headers=headers)
    fill(broker, topic, ["w"], timestamp=NOON_MS + 1)
    rows = source.batch(topic, includeHeaders="true").orderBy("offset").collect()
    first, second = (row.asDict(recursive=True) for row in rows)
    assert first == {
        "key": bytearray(b"\x00k"),
        "value": bytearray(b"v"),
        "topic": topic,
        "partition": 0,
        "offset": 0,
        "timestamp": datetime.fromtimestamp(NOON_MS / 1000, UTC).replace(tzinfo=None),
        "timestampType": 0,
        "headers": [{"key": key, "value": value} for key, value in headers],
    }
    assert (second["key"], second["headers"], second["offset"]) == (None, None, 1)


def test_log_append_time_is_distinguished_from_create_time(source: Source, broker: Broker, new_topic: NewTopic) -> None:
    topic = new_topic(message_timestamp_type="LogAppendTime")
    fill(broker, topic, ["v"], timestamp=1)
    (row,) = source.batch(topic, "timestampType int, timestamp timestamp").collect()
    assert row.timestampType == 1
    assert row.timestamp.year >= 2024


def test_topics_are_named_matched_or_given_by_partition(source: Source, numbers: str) -> None:
    assert source.values(numbers) == counted(*range(300))
    assert source.values(subscribePattern="spark-num.*") == counted(*range(300))
    assert source.values(assign=json.dumps({numbers: [0, 2]})) == counted(*range(100), *range(200, 300))
    assert source.values(subscribePattern="spark-num") == []


def test_a_batch_starts_and_ends_at_the_given_offsets(source: Source, numbers: str) -> None:
    start, end = per_partition(numbers, 90, -2, 100), per_partition(numbers, -1, 3, 100)
    found = source.values(numbers, startingOffsets=start, endingOffsets=end)
    assert found == counted(*range(90, 100), 100, 101, 102)


def test_a_batch_starts_and_ends_at_the_given_times(source: Source, numbers: str) -> None:
    since, until = NOON_MS + 98_500, NOON_MS + 102_000
    latest = {"startingOffsetsByTimestampStrategy": "latest"}
    found = source.values(numbers, startingTimestamp=str(since), endingTimestamp=str(until), **latest)
    assert found == counted(99, 100, 101)
    times = per_partition(numbers, since, NOON_MS, NOON_MS + 299_000)
    ends = per_partition(numbers, until, NOON_MS + 101_000, until * 2)
    found = source.values(numbers, startingOffsetsByTimestamp=times, endingOffsetsByTimestamp=ends)
    assert found == counted(99, 100, 299)
    with pytest.raises(Exception, match="No offset matched from request of topic-partition"):
        source.values(numbers, startingTimestamp=str(NOON_MS + 150_000))


def test_large_partitions_are_split_into_tasks(source: Source, numbers: str) -> None:
    assert source.batch(numbers).rdd.getNumPartitions() == 3
    wide = source.batch(numbers, minPartitions="9")
    small = source.batch(numbers, maxRecordsPerPartition="25")
    assert (wide.rdd.getNumPartitions(), small.rdd.getNumPartitions()) == (9, 12)
    assert wide.count() == small.count() == 300


def test_only_the_columns_of_a_schema_are_read(source: Source, numbers: str) -> None:
    rows = source.batch(numbers, "offset bigint, value string").where("offset = 7").collect()
    assert sorted(row.value for row in rows) == ["107", "207", "7"]
    with pytest.raises(Exception, match="there is no column 'payload'"):
        source.batch(numbers, "payload binary").collect()
    with pytest.raises(Exception, match="the column 'offset' is bigint, not int"):
        source.batch(numbers, "offset int").collect()


@pytest.mark.skipif(not PUSHES_FILTERS, reason="Spark pushes filters since 4.1")
def test_filters_that_spark_pushes_down_are_applied_by_the_log(source: Source, numbers: str) -> None:
    source.spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        rows = source.batch(numbers).where("partition > 0 and offset >= 98 and topic like 'spark%'")
        assert sorted(int(row.value) for row in rows.collect()) == [198, 199, 298, 299]
        assert rows.rdd.getNumPartitions() == 2
        moment = datetime.fromtimestamp(NOON_MS / 1000 + 150, UTC).isoformat()
        late = source.batch(numbers).where(f"timestamp > timestamp'{moment}'")
        assert sorted(int(row.value) for row in late.collect()) == list(range(151, 300))
        assert late.rdd.getNumPartitions() == 2
    finally:
        source.spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_deleted_records_fail_the_query_or_are_skipped(source: Source, broker: Broker, topic: str) -> None:
    fill(broker, topic, range(50))
    cut(broker, topic, before=20)
    start = per_partition(topic, 10)
    with pytest.raises(
        Exception, match=f"offsets 10 to 49 of {topic}-0 were requested, but the log has 20 to 49.*failOnDataLoss"
    ):
        source.values(topic, startingOffsets=start)
    assert source.values(topic, startingOffsets=start, failOnDataLoss="false") == counted(*range(20, 50))
    assert source.values(topic) == counted(*range(20, 50))


def test_read_committed_shows_what_transactions_have_committed(source: Source, broker: Broker, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions(60)
    for number in range(6):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % number)
        producer.flush(60)
        producer.commit_transaction(60) if number % 2 else producer.abort_transaction(60)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(60)
    assert source.values(topic, **{"kafka.isolation.level": "read_committed"}) == counted(1, 3, 5)
    assert source.values(topic) == [*counted(*range(6)), "open"]
    producer.abort_transaction(60)
    assert source.values(topic, **{"kafka.isolation.level": "read_committed"}) == counted(1, 3, 5)


def test_values_in_json_are_typed_columns(source: Source, broker: Broker, topic: str) -> None:
    fill(broker, topic, ['{"a": 1, "b": {"c": "x"}}', '{"a": 2}', "not json"])
    options = {"valueFormat": "json", "valueSchema": "a INT, b STRUCT<c: STRING>"}
    rows = source.batch(topic, **options, valueErrors="null").orderBy("offset").select("value.a", "value.b.c").collect()
    assert [tuple(row) for row in rows] == [(1, "x"), (2, None), (None, None)]
    with pytest.raises(Exception, match=f"the value at offset 2 of {topic}-0 cannot be read"):
        source.batch(topic, **options).collect()


def test_values_in_avro_after_a_schema_id_are_typed_columns(
    source: Source, broker: Broker, topic: str
) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}, {"name": "s", "type": "string"}]}
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(3):
        producer.produce(topic, b"\0\0\0\0\x09" + bytes([2 * number, 4]) + b"hi")
    assert producer.flush(60) == 0
    options = {"valueFormat": "avro", "valueSchema": json.dumps(schema), "valuePrefix": "registry"}
    rows = source.batch(topic, **options, valueSchemaId="9").orderBy("offset").select("value.*").collect()
    assert [tuple(row) for row in rows] == [(0, "hi"), (1, "hi"), (2, "hi")]
    with pytest.raises(Exception, match="does not begin with the number 8"):
        source.batch(topic, **options, valueSchemaId="8").collect()


WRONG = {
    "unknown option 'subscibe': did you mean subscribe": {"subscibe": "t"},
    "Only one of the following options can be specified": {"assign": "{}"},
    "starting offset can't be latest for batch queries": {"startingOffsets": "latest"},
    "'auto.offset.reset' is not supported": {"kafka.auto.offset.reset": "earliest"},
    "unknown setting 'sasl.mechanisms': here it is sasl.mechanism": {"kafka.sasl.mechanisms": "PLAIN"},
    "you must specify all TopicPartitions": {"startingOffsets": '{"spark-numbers":{"0":1}}'},
    "starting offset 9 of spark-numbers-0 is greater than its ending offset 5": {
        "startingOffsets": per_partition("spark-numbers", 9, 0, 0),
        "endingOffsets": per_partition("spark-numbers", 5, 1, 1),
    },
    "valueSchema is missing": {"valueFormat": "json"},
}


@pytest.mark.parametrize("told", WRONG)
def test_a_wrong_option_is_named_with_the_right_one(source: Source, numbers: str, told: str) -> None:
    with pytest.raises(Exception, match=told):
        source.batch(numbers, **WRONG[told]).collect()


def test_a_missing_topic_is_named_and_not_created(source: Source) -> None:
    quick = {"fetchOffset.numRetries": "0"}
    for _ in range(2):
        with pytest.raises(Exception, match="no-such-topic"):
            source.batch("no-such-topic", **quick).collect()

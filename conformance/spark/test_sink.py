"""``df.write`` and ``df.writeStream`` of ``format("pybroker")``, read back by librdkafka."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conformance.applications.committed import read_all
from conformance.conftest import NewTopic
from harness.clients.librdkafka import present
from harness.protocol.wire_client import Wire
from harness.servers.brokers import Broker
from harness.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PATIENCE_S = 180
EXACTLY_ONCE = {"delivery": "exactly-once"}


def to(broker: Broker, **options: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": broker.bootstrap, **options}


def numbers(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(count).selectExpr("cast(id as string) value")


def save(rows: DataFrame, options: dict[str, str]) -> None:
    rows.write.format("pybroker").mode("append").options(**options).save()


def values(broker: Broker, topic: str, partitions: int = 1) -> Counter[int]:
    return Counter(int(present(message.value())) for message in read_all(broker, topic, partitions))


def once(count: int) -> Counter[int]:
    return Counter(range(count))


@pytest.mark.parametrize("options", [{}, EXACTLY_ONCE], ids=["at least once", "exactly once"])
def test_a_batch_is_written_as_a_whole(
    spark: SparkSession, broker: Broker, new_topic: NewTopic, options: dict[str, str]
) -> None:
    topic = new_topic(3)
    save(numbers(spark, 20_000), to(broker, topic=topic, **options))
    assert values(broker, topic, 3) == once(20_000)


def test_every_column_is_written_into_its_record(spark: SparkSession, broker: Broker, new_topic: NewTopic) -> None:
    first, second = new_topic(2), new_topic(2)
    rows = spark.range(1_000).selectExpr(
        "cast(id as string) value",
        "cast(if(id % 7 = 0, null, cast(id as string)) as binary) key",
        f"if(id % 2 = 0, '{first}', '{second}') topic",
        "cast(id % 4 div 2 as int) partition",
        "if(id % 5 = 0, null, array(struct('n' as key, cast(cast(id as string) as binary) as value))) headers",
    )
    save(rows, to(broker))
    found = 0
    for topic, rest in ((first, 0), (second, 1)):
        for message in read_all(broker, topic, 2):
            number = int(present(message.value()))
            assert number % 2 == rest
            assert message.partition() == number % 4 // 2
            assert message.key() == (None if number % 7 == 0 else str(number).encode())
            assert message.headers() == (None if number % 5 == 0 else [("n", str(number).encode())])
            found += 1
    assert found == 1_000


def test_a_named_write_that_succeeded_is_not_repeated(
    spark: SparkSession, broker: Broker, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    options = to(broker, topic=topic, writeId=f"of {topic}", **EXACTLY_ONCE)
    for _ in range(2):
        save(numbers(spark, 100), options)
    assert values(broker, topic) == once(100)


def test_a_failed_batch_leaves_no_record_and_no_open_transaction(
    spark: SparkSession, broker: Broker, new_topic: NewTopic
) -> None:
    topic = new_topic(2)
    rows = spark.range(0, 1_000, 1, 4).selectExpr("cast(if(id = 900, raise_error('on purpose'), id) as string) value")
    with pytest.raises(Exception, match="on purpose"):
        save(rows, to(broker, topic=topic, **EXACTLY_ONCE))
    assert values(broker, topic, 2) == Counter()


@pytest.mark.parametrize(
    ("expression", "options", "said"),
    [
        ("id value", {"topic": "t"}, "column value is bigint; it must be string or binary"),
        ("cast(id as string) val", {"topic": "t"}, "column value is missing: there are val"),
        ("cast(id as string) value", {}, "no topic: give the option topic"),
        ("cast(id as string) value", {"topic": "t", "deliverey": "x"}, "did you mean delivery"),
        ("cast(id as string) value", {"topic": "t", "kafka.key.serializer": "x"}, "key.serializer is not supported"),
        ("cast(id as string) value", {"topic": "t", "kafka.acks": "1", **EXACTLY_ONCE}, "exactly-once needs all"),
        ("cast(id as string) value, cast(null as string) topic", {}, "column topic: null in the data"),
    ],
)
def test_an_error_names_the_wrong_option_and_the_allowed_values(
    spark: SparkSession, broker: Broker, expression: str, options: dict[str, str], said: str
) -> None:
    with pytest.raises(Exception, match=said):
        save(spark.range(1).selectExpr(*expression.split(", ")), to(broker, **options))


def test_a_topic_is_not_overwritten(spark: SparkSession, broker: Broker) -> None:
    with pytest.raises(Exception, match="appended to, never overwritten"):
        numbers(spark, 1).write.format("pybroker").mode("overwrite").options(**to(broker, topic="t")).save()


def test_the_producers_error_fails_the_write(spark: SparkSession, broker: Broker, new_topic: NewTopic) -> None:
    options = to(broker, topic=new_topic(1), **{"kafka.max.request.size": "1000"})
    with pytest.raises(Exception, match=r"larger than max\.request\.size"):
        save(spark.range(1).selectExpr("repeat('x', 2000) value"), options)


def streamed(spark: SparkSession, folder: Path, options: dict[str, str], batches: int) -> Any:
    """Runs the query from its checkpoint for this many batches of 500 rows."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 500).option("numPartitions", 2)
    rows = source.load().selectExpr("cast(value as string) value")
    query = rows.writeStream.format("pybroker").options(**options, checkpointLocation=str(folder)).start()

    def far_enough() -> bool:
        assert query.isActive, query.exception()
        return len(list((folder / "commits").glob("[0-9]*"))) >= batches

    until(far_enough, f"{batches} batches", PATIENCE_S)
    query.stop()
    return query


@pytest.mark.parametrize("options", [{}, EXACTLY_ONCE], ids=["at least once", "exactly once"])
def test_a_stream_resumes_where_it_stopped(
    spark: SparkSession, broker: Broker, new_topic: NewTopic, tmp_path: Path, options: dict[str, str]
) -> None:
    given = to(broker, topic=new_topic(2), **options)
    for batches in (2, 4):
        streamed(spark, tmp_path, given, batches)
    found = values(broker, given["topic"], 2)
    whole = len(list((tmp_path / "commits").glob("[0-9]*"))) * 500
    assert whole >= 2000
    assert set(range(whole)) <= set(found)
    if options:
        assert max(found.values()) == 1
        assert len(found) % 500 == 0


def test_a_stream_stopped_within_a_batch_leaves_no_open_transaction(
    spark: SparkSession, broker: Broker, new_topic: NewTopic, tmp_path: Path
) -> None:
    """One task has written its rows when the other, which sleeps, is cancelled, long before any time-out."""
    given = to(broker, topic=new_topic(1), checkpointLocation=str(tmp_path), **EXACTLY_ONCE)
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 500).option("numPartitions", 2).load()
    slept = "if(value = 499, java_method('java.lang.Thread', 'sleep', 300000L), '')"
    rows = source.selectExpr(f"concat(cast(value as string), {slept}) value")
    query = rows.writeStream.format("pybroker").options(**given).start()
    with Wire(broker.address) as wire:
        until(lambda: wire.end_offset(given["topic"], 0) > 0, "the rows of a task", PATIENCE_S)
    query.stop()
    assert values(broker, given["topic"]) == Counter()

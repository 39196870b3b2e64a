"""``spark.readStream.format("pybroker")``: each record once, over restarts, limits, growth and loss.

Before PySpark 4.2 ``Trigger.AvailableNow`` is one batch (docs/spark.md).
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from conformance.conftest import NewTopic
from conformance.spark.source import PATIENCE_S, TELLS_START, Source, cut, delete, fill, widen
from harness.servers.brokers import Broker
from harness.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.ours
EARLIEST = {"startingOffsets": "earliest"}


@pytest.fixture
def source(spark: SparkSession, broker: Broker, tmp_path: Path) -> Source:
    return Source(spark, broker, tmp_path)


def sizes(query: Any) -> list[int]:
    """Returns the sizes of the micro-batches that had rows."""
    return [each.numInputRows for each in query.recentProgress if each.numInputRows]


def progress(query: Any) -> Any:
    """Returns the last progress of the one source; PySpark before 4.2 gives its offsets as Python's text."""
    (told,) = json.loads(query.lastProgress.json)["sources"]
    return told


def written(source: Source) -> list[int]:
    return sorted(int(value) for *_, value in source.result())


def test_a_restart_resumes_at_the_checkpoint(source: Source, broker: Broker, new_topic: NewTopic) -> None:
    topic = new_topic(3)
    for partition in range(3):
        fill(broker, topic, range(100 * partition, 100 * partition + 50), partition)
    rows = source.stream(topic, **EARLIEST, maxOffsetsPerTrigger="60")
    assert sizes(source.run(rows)) == ([60, 60, 30] if TELLS_START else [150])
    for partition in range(3):
        fill(broker, topic, range(100 * partition + 50, 100 * partition + 100), partition)
    again = source.run(source.stream(topic, startingOffsets="latest"))
    assert sizes(again) == [150]
    assert written(source) == list(range(300))
    assert len({row[:3] for row in source.result()}) == 300
    assert progress(again)["endOffset"] == {topic: {"0": 100, "1": 100, "2": 100}}


def test_rows_are_read_while_they_are_written_and_lag_is_reported(
    source: Source, broker: Broker, new_topic: NewTopic, group: str
) -> None:
    topic = new_topic(3)
    query = source.start(source.stream(topic, **EARLIEST, **{"kafka.group.id": group}), processingTime="0 seconds")
    try:
        for turn in range(10):
            for partition in range(3):
                first = 300 * turn + 100 * partition
                fill(broker, topic, range(first, first + 100), partition)
        wanted = {topic: {"0": 1000, "1": 1000, "2": 1000}}
        reader = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
        places = [TopicPartition(topic, number) for number in range(3)]
        until(lambda: [row.offset for row in reader.committed(places)] == [1000] * 3, "the lag is gone", PATIENCE_S)
        reader.close()
        told = progress(query)
        assert told["endOffset"] == told["latestOffset"] == wanted
    finally:
        query.stop()
    assert written(source) == list(range(3000))


def test_new_partitions_and_topics_begin_at_their_first_record(
    source: Source, broker: Broker, new_topic: NewTopic
) -> None:
    first = new_topic(1)
    pattern = {"subscribePattern": f"{first}(-more)?", **EARLIEST}
    fill(broker, first, range(5))
    source.run(source.stream(**pattern))
    widen(broker, first, 2)
    fill(broker, first, range(5, 10), 1)
    new_topic(1, f"{first}-more")
    fill(broker, f"{first}-more", range(10, 15))
    source.run(source.stream(**pattern))
    assert written(source) == list(range(15))


def test_available_now_ends_although_more_is_written(source: Source, broker: Broker, topic: str) -> None:
    fill(broker, topic, range(40))
    query = source.start(source.stream(topic, **EARLIEST, maxOffsetsPerTrigger="10"), availableNow=True)
    until(lambda: query.recentProgress, "a batch", PATIENCE_S)
    fill(broker, topic, range(40, 80))
    assert query.awaitTermination(PATIENCE_S)
    assert sizes(query) == ([10] * 4 if TELLS_START else [40])
    assert written(source) == list(range(40))


def test_a_batch_is_limited_in_bytes_too(source: Source, broker: Broker, topic: str) -> None:
    fill(broker, topic, (f"{number:01000d}" for number in range(200)))
    query = source.run(source.stream(topic, **EARLIEST, maxBytesPerTrigger="60000"))
    assert sum(sizes(query)) == 200
    assert all(40 <= size <= 60 for size in sizes(query)[:-1])


def test_a_batch_waits_a_limited_time_for_records(source: Source, broker: Broker, topic: str) -> None:
    limits = {"minOffsetsPerTrigger": "100", "maxTriggerDelay": "20s"}
    idle = "spark.sql.streaming.noDataProgressEventInterval"
    fill(broker, topic, range(10))
    source.spark.conf.set(idle, "500ms")
    query = source.start(source.stream(topic, **EARLIEST, **limits), processingTime="0 seconds")
    try:
        until(lambda: sizes(query) == [10], "the first batch", PATIENCE_S)
        fill(broker, topic, range(10, 20))
        if TELLS_START:
            until(lambda: seen(query, topic) == (10, 20), "a look at too few records", PATIENCE_S)
        else:  # The progress of a waiting query does not tell what there is.
            time.sleep(3)
        fill(broker, topic, range(20, 30))
        until(lambda: len(sizes(query)) == 2, "the second", PATIENCE_S)
        assert sizes(query) == [10, 20]
    finally:
        query.stop()
        source.spark.conf.unset(idle)
    assert written(source) == list(range(30))


def seen(query: Any, topic: str) -> tuple[int, int]:
    """Returns the read offset of the first partition, and its end offset, as of the last progress."""
    told = progress(query)
    return told["endOffset"][topic]["0"], told["latestOffset"][topic]["0"]


def test_deleted_records_end_the_query_or_are_skipped(
    source: Source, broker: Broker, topic: str
) -> None:
    fill(broker, topic, range(20))
    source.run(source.stream(topic, **EARLIEST, maxOffsetsPerTrigger="20"))
    fill(broker, topic, range(20, 60))
    cut(broker, topic, before=45)
    with pytest.raises(Exception, match=f"Offsets 20 to 44 of {topic}-0 are gone.*failOnDataLoss"):
        source.run(source.stream(topic))
    source.run(source.stream(topic, failOnDataLoss="false"))
    assert written(source) == [*range(20), *range(45, 60)]


def test_a_topic_that_was_created_again_is_noticed(source: Source, broker: Broker, new_topic: NewTopic) -> None:
    topic = new_topic()
    fill(broker, topic, range(30))
    source.run(source.stream(topic, **EARLIEST))
    delete(broker, topic)
    new_topic(1, topic)
    fill(broker, topic, range(100, 110))
    with pytest.raises(Exception, match=f"Partition {topic}-0's offset was changed from 30 to 10"):
        source.run(source.stream(topic, **{"fetchOffset.numRetries": "0"}))
    lax = {"failOnDataLoss": "false", "fetchOffset.numRetries": "0"}
    source.run(source.stream(topic, **lax))
    assert written(source) == list(range(30))  # As far as the source knows, the leader lags.
    fill(broker, topic, range(110, 140))
    source.run(source.stream(topic, **lax))
    assert written(source) == [*range(30), *range(130, 140)]


def test_read_committed_never_returns_open_or_aborted_records(source: Source, broker: Broker, topic: str) -> None:
    committed = {"kafka.isolation.level": "read_committed", **EARLIEST}
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions(60)
    for first, keep in ((0, True), (10, False), (20, True)):
        producer.begin_transaction()
        for number in range(first, first + 10):
            producer.produce(topic, b"%d" % number)
        producer.flush(60)
        if first == 20:
            source.run(source.stream(topic, **committed))
            assert written(source) == list(range(10))
        producer.commit_transaction(60) if keep else producer.abort_transaction(60)
    source.run(source.stream(topic, **committed))
    assert written(source) == [*range(10), *range(20, 30)]


def test_a_stream_refuses_an_option_for_its_end(source: Source, topic: str) -> None:
    with pytest.raises(Exception, match=r"endingOffsets is not an option of spark\.readStream"):
        source.run(source.stream(topic, endingOffsets="latest"))

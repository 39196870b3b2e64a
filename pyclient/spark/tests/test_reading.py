"""Readers as PySpark drives them, on a running broker and without a JVM."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from pyclient import Admin, Producer, TopicPartition
from pyclient.admin.results import Results
from pyclient.errors import ConnectionFailed, LeaderNotAvailable, RequestTimedOut
from pyclient.spark import api
from pyclient.spark.source.batch_reader import batch_reader
from pyclient.spark.source.clients import consumer_of
from pyclient.spark.source.columns import source_schema
from pyclient.spark.source.data_loss import DataLoss
from pyclient.spark.source.range_reader import gathered
from pyclient.spark.source.stream_reader import LimitedReader, UnlimitedReader, stream_reader
from pyclient.tests.brokers import Broker, broker, unique  # noqa: F401

Options = dict[str, str]
QUICK = {"fetchOffset.retryIntervalMs": "10", "fetchOffset.numRetries": "1"}


@pytest.fixture(scope="module")
def admin(broker: Broker) -> Iterator[Admin]:  # noqa: F811
    with Admin(broker.bootstrap) as made:
        yield made


@pytest.fixture
def topic(admin: Admin) -> str:
    """Creates a topic with three partitions."""
    name = unique("spark")
    admin.create_topics(name, num_partitions=3, replication_factor=1)
    return name


@pytest.fixture
def fill(broker: Broker) -> Iterator[Callable[..., None]]:  # noqa: F811
    with Producer(broker.bootstrap) as producer:

        def write(topic: str, *numbers: int, partition: int = 0) -> None:
            producer.send_many(topic, [b"%d" % number for number in numbers], partition=partition)
            producer.flush()

        yield write


@pytest.fixture
def options(broker: Broker, topic: str) -> Options:  # noqa: F811
    return {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, "startingOffsets": "earliest", **QUICK}


def schema(options: Options) -> StructType:
    made = source_schema(options)
    assert isinstance(made, StructType)
    return made


def stream(options: Options, **more: str) -> Any:
    made = stream_reader({**options, **more}, schema(options))
    assert isinstance(made, LimitedReader if api.TELLS_START else UnlimitedReader)
    return made


def rows(reader: Any, partitions: list[Any]) -> list[dict[str, Any]]:
    """Returns the rows that tasks read, which get the reader and a partition pickled."""
    there = pickle.loads(pickle.dumps(reader))
    return [
        row
        for each in partitions
        for batch in there.read(pickle.loads(pickle.dumps(each)))
        for row in batch.to_pylist()
    ]


def values(reader: Any, start: Any, end: Any) -> list[int]:
    tasks = stream_reader_of(reader)
    return sorted(int(row["value"]) for row in rows(tasks, list(reader.partitions(start, end))))


def stream_reader_of(reader: Any) -> Any:
    """Returns the part of a reader that tasks get, which is pickled before the driver has sent a request."""
    return reader._ranges


def latest(reader: Any, start: Any) -> Any:
    """Returns where the next batch ends. Before 4.2, Spark passes no start, and the end of the previous batch takes its
    place.
    """
    return reader.latestOffset(start, reader.getDefaultReadLimit()) if api.TELLS_START else reader.latestOffset()


with_limits = pytest.mark.skipif(not api.TELLS_START, reason="Spark tells limits and starts since 4.2")


def test_a_batch_reads_the_records_between_its_ends(options: Options, topic: str, fill: Callable[..., None]) -> None:
    fill(topic, *range(100))
    fill(topic, *range(100, 130), partition=2)
    end = json.dumps({topic: {"0": 50, "1": -1, "2": -1}})
    reader = batch_reader({**options, "endingOffsets": end, "maxRecordsPerPartition": "30"}, schema(options))
    planned = pickle.loads(pickle.dumps(reader))
    found = rows(planned, planned.partitions())
    assert [int(row["value"]) for row in found] == [*range(50), *range(100, 130)]
    assert len(planned.partitions()) == 3


def test_tasks_of_one_process_share_a_client(
    options: Options, topic: str, fill: Callable[..., None]
) -> None:
    fill(topic, 1, 2, 3)
    reader = batch_reader(options, schema(options))
    (task,) = reader.partitions()
    list(reader.read(task))
    client = {"bootstrap.servers": options["kafka.bootstrap.servers"]}
    with consumer_of(client) as first:
        pass
    next(reader.read(task))  # a task that stops early
    with consumer_of(client) as second:
        assert second is first


@with_limits
def test_batches_follow_each_other_without_a_gap(options: Options, topic: str, fill: Callable[..., None]) -> None:
    fill(topic, *range(60))
    reader = stream(options, maxOffsetsPerTrigger="40")
    start = reader.initialOffset()
    assert start == {topic: {"0": 0, "1": 0, "2": 0}}
    first = latest(reader, start)
    assert first == {topic: {"0": 40, "1": 0, "2": 0}}
    assert reader.reportLatestOffset() == {topic: {"0": 60, "1": 0, "2": 0}}
    fill(topic, *range(60, 80), partition=1)
    second = reader.latestOffset(first, api.limits.ReadAllAvailable())
    assert second == {topic: {"0": 60, "1": 20, "2": 0}}
    assert values(reader, start, first) + values(reader, first, second) == list(range(80))
    assert latest(reader, second) == second
    assert reader.partitions(second, second) == []
    reader.stop()


def test_offsets_that_spark_commits_are_committed_to_the_group(
    options: Options, topic: str, admin: Admin, fill: Callable[..., None]
) -> None:
    fill(topic, *range(10))
    reader = stream(options, groupIdPrefix="lag")
    reader.commit(latest(reader, reader.initialOffset()))
    assert admin.list_consumer_group_offsets(f"lag-{topic}")[TopicPartition(topic, 0)].offset == 10
    reader.stop()


@with_limits
def test_offsets_of_a_finished_batch_are_committed_to_the_group(
    options: Options, topic: str, admin: Admin, fill: Callable[..., None]
) -> None:
    fill(topic, *range(10))
    reader = stream(options, groupIdPrefix="lag")
    group = f"lag-{topic}"
    end = latest(reader, reader.initialOffset())
    assert admin.list_consumer_group_offsets(group)[TopicPartition(topic, 0)].offset == 0
    latest(reader, end)
    assert admin.list_consumer_group_offsets(group)[TopicPartition(topic, 0)].offset == 10
    reader.stop()


@with_limits
def test_available_now_reads_no_later_record(options: Options, topic: str, fill: Callable[..., None]) -> None:
    fill(topic, *range(10))
    reader = stream(options, minOffsetsPerTrigger="1000")
    reader.prepareForTriggerAvailableNow()
    fill(topic, *range(10, 20))
    end = latest(reader, reader.initialOffset())
    assert end[topic]["0"] == 10
    assert latest(reader, end) == end
    reader.stop()


def test_new_partitions_begin_at_their_first_record(
    options: Options, topic: str, admin: Admin, fill: Callable[..., None]
) -> None:
    reader = stream(options)
    start = reader.initialOffset()
    admin.create_partitions({topic: 4})
    fill(topic, 7, 8, partition=3)
    end = latest(reader, start)
    assert values(reader, start, end) == [7, 8]
    reader.stop()


def test_a_topic_created_again_is_data_loss_or_read_from_its_start(
    options: Options, topic: str, admin: Admin, fill: Callable[..., None]
) -> None:
    fill(topic, *range(5))
    reader = stream(options, failOnDataLoss="false")
    strict = stream(options)
    start = latest(strict, strict.initialOffset())
    assert latest(reader, reader.initialOffset()) == start
    admin.delete_topics(topic)
    admin.create_topics(topic, num_partitions=3, replication_factor=1)
    fill(topic, *range(100, 109))
    with pytest.raises(DataLoss, match="deleted and created again"):
        latest(strict, start)
    end = latest(reader, start)
    assert values(reader, start, end) == list(range(100, 109))
    reader.stop()
    strict.stop()


def test_an_error_names_records_deleted_during_the_read(
    options: Options, topic: str, admin: Admin, fill: Callable[..., None]
) -> None:
    fill(topic, *range(40))
    strict, lax = stream(options), stream(options, failOnDataLoss="false")
    start = strict.initialOffset()
    end = latest(strict, start)
    (task,) = strict.partitions(start, end)
    admin.delete_records({TopicPartition(topic, 0): 25})
    with pytest.raises(DataLoss, match=rf"Offsets 0 to 24 of {topic}-0 are gone: the log has offsets 25 to 40 now"):
        rows(stream_reader_of(strict), [task])
    assert [int(row["value"]) for row in rows(stream_reader_of(lax), [task])] == list(range(25, 40))
    strict.stop()


@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_task_waits_for_records_that_the_log_does_not_have_yet(
    options: Options, topic: str, fill: Callable[..., None], fails: str
) -> None:
    fill(topic, *range(10))
    reader = stream(options, failOnDataLoss=fails, **{"kafkaConsumer.pollTimeoutMs": "1500"})
    (task,) = reader.partitions(reader.initialOffset(), {topic: {"0": 15, "1": 0, "2": 0}})
    with pytest.raises(RequestTimedOut, match=rf"Cannot fetch record for offset 10 of {topic}-0"):
        rows(stream_reader_of(reader), [task])
    fill(topic, *range(10, 15))
    assert [int(row["value"]) for row in rows(stream_reader_of(reader), [task])] == list(range(15))
    reader.stop()


def test_a_topic_created_again_before_its_task_is_data_loss_by_its_id(options: Options, topic: str, admin: Admin,
                                                             fill: Callable[..., None]) -> None:
    fill(topic, *range(3))
    strict, lax = stream(options), stream(options, failOnDataLoss="false")
    start = strict.initialOffset()
    tasks = strict.partitions(start, latest(strict, start))
    batch = batch_reader(options, schema(options)).partitions()
    admin.delete_topics(topic)
    admin.create_topics(topic, num_partitions=3, replication_factor=1)
    for task in (*tasks, *batch):
        why = f"Offsets 0 to 2 of {topic}-0 are gone: the topic was deleted and created again"
        with pytest.raises(DataLoss, match=why):
            rows(stream_reader_of(strict), [task])
        assert rows(stream_reader_of(lax), [task]) == []
    strict.stop()


@pytest.mark.parametrize("offsets", [(0, 50), (0, 100), (0, 150)])
def test_the_error_of_a_batch_names_the_deleted_records(
    options: Options, topic: str, admin: Admin, fill: Callable[..., None], offsets: tuple[int, int]
) -> None:
    fill(topic, *range(200))
    admin.delete_records({TopicPartition(topic, 0): 100})
    first, last = ({topic: {"0": offset, "1": 0, "2": 0}} for offset in offsets)
    ends = {"startingOffsets": json.dumps(first), "endingOffsets": json.dumps(last)}
    strict = batch_reader({**options, **ends}, schema(options))
    why = f"offsets 0 to {offsets[1] - 1} of {topic}-0 were requested, but the log has 100 to"
    with pytest.raises(DataLoss, match=why):
        strict.partitions()
    lax = batch_reader({**options, **ends, "failOnDataLoss": "false"}, schema(options))
    assert [int(row["value"]) for row in rows(lax, lax.partitions())] == list(range(100, offsets[1]))


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_a_range_ends_although_its_last_records_are_not_returned(
    broker: Broker, options: Options, topic: str, isolation: str  # noqa: F811
) -> None:
    def run(first: int, *, keep: bool) -> None:
        producer.begin_transaction()
        producer.send_many(topic, [b"%d" % number for number in range(first, first + 10)], partition=0)
        producer.flush()
        producer.commit_transaction() if keep else producer.abort_transaction()

    reader = stream(options, **{"kafka.isolation.level": isolation, "kafkaConsumer.pollTimeoutMs": "5000"})
    edges = [reader.initialOffset()]
    with Producer(broker.bootstrap, config={"transactional.id": topic}) as producer:
        producer.init_transactions()
        for turn, keep in enumerate((True, False, False, True, False)):
            run(10 * turn, keep=keep)
            edges.append(latest(reader, edges[-1]))
    assert [edge[topic]["0"] for edge in edges] == [0, 11, 22, 33, 44, 55]  # a marker ends each
    given = {turn for turn in range(5) if isolation == "read_uncommitted" or turn in (0, 3)}
    for turn, (start, end) in enumerate(pairwise(edges)):
        assert values(reader, start, end) == [*range(10 * turn, 10 * turn + 10)] * (turn in given)
    whole = [number for turn in sorted(given) for number in range(10 * turn, 10 * turn + 10)]
    assert values(reader, edges[0], edges[-1]) == whole
    marker = {topic: {"0": 54, "1": 0, "2": 0}}
    assert values(reader, marker, edges[-1]) == []  # a control record and nothing else
    reader.stop()


def test_a_batch_without_a_start_begins_at_the_end_of_the_one_before(
    options: Options, topic: str, fill: Callable[..., None]
) -> None:
    fill(topic, *range(30))
    made = stream({**options, "maxOffsetsPerTrigger": "10"})
    reader = UnlimitedReader(made._options, schema(options))
    first = reader.latestOffset()
    assert reader.initialOffset() == {topic: {"0": 0, "1": 0, "2": 0}}
    assert first == {topic: {"0": 30, "1": 0, "2": 0}}
    fill(topic, *range(30, 60))
    assert reader.latestOffset() == {topic: {"0": 40, "1": 0, "2": 0}}
    reader.stop()


def test_a_topic_created_again_while_the_query_was_down_is_noticed_before_spark_4_2(
    options: Options, topic: str, fill: Callable[..., None]
) -> None:
    fill(topic, *range(10))
    read = {topic: {"0": 30, "1": 0, "2": 0}}
    reader = UnlimitedReader(stream(options)._options, schema(options))
    assert reader.partitions(read, read) == []  # what Spark asks first after a restart: the batch that it had read
    with pytest.raises(DataLoss, match=f"Partition {topic}-0's offset was changed from 30 to 10"):
        reader.latestOffset()
    reader.stop()


def test_small_fetches_are_combined_into_one_batch_for_spark() -> None:
    def batch(rows: int, width: int = 1) -> pa.RecordBatch:
        return pa.record_batch({"value": [b"v" * width] * rows})

    sizes = [each.num_rows for each in gathered([batch(4000), batch(4000), batch(4000), batch(20_000), batch(5)])]
    assert sizes == [12_000, 20_000, 5]
    large = [each.num_rows for each in gathered([batch(6, 1 << 20)] * 3)]
    assert large == [12, 6]
    assert list(gathered([])) == []


def test_a_topic_deleted_before_its_task_is_data_loss_that_names_it(
    options: Options, topic: str, admin: Admin, fill: Callable[..., None]
) -> None:
    fill(topic, *range(3))
    soon = {"kafka.default.api.timeout.ms": "500"}
    strict, lax = stream(options, **soon), stream(options, failOnDataLoss="false", **soon)
    start = strict.initialOffset()
    (task,) = strict.partitions(start, latest(strict, start))
    admin.delete_topics(topic)
    with pytest.raises(DataLoss, match=rf"Offsets 0 to 2 of {topic}-0 are gone"):
        rows(stream_reader_of(strict), [task])
    assert rows(stream_reader_of(lax), [task]) == []
    strict.stop()


def test_an_unreachable_broker_fails_the_query_after_the_timeout_of_a_call() -> None:
    client = {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.default.api.timeout.ms": "300"}
    patient = {"subscribe": "t", "fetchOffset.numRetries": "9", "fetchOffset.retryIntervalMs": "60000"}
    options = {**client, **patient}
    with pytest.raises(ConnectionFailed, match=r"127\.0\.0\.1:1"):
        batch_reader(options, source_schema(options)).partitions()


def test_a_topic_with_an_error_is_not_gone(options: Options, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only UNKNOWN_TOPIC_OR_PARTITION means that a topic is gone. Another error is retried, then raised."""
    asked = []

    def failing(*_: Any, **__: Any) -> Results[str, Any]:
        asked.append(1)
        return Results({}, {topic: LeaderNotAvailable("of the test")})

    monkeypatch.setattr(Admin, "describe_topics", failing)
    reader = stream(options, failOnDataLoss="false")
    with pytest.raises(LeaderNotAvailable):
        reader.initialOffset()
    assert len(asked) == 2

"""A task, and a consumer that answers as a test has written it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from pyclient import TopicPartition
from pyclient.consumer import LogTruncation
from pyclient.errors import OffsetOutOfRange, RequestTimedOut
from pyclient.spark.options import Use
from pyclient.spark.source import clients, range_reader
from pyclient.spark.source.clients import consumer_of
from pyclient.spark.source.columns import columns_of
from pyclient.spark.source.data_loss import DataLoss
from pyclient.spark.source.range_reader import RangePartition, RangeReader, _Reading
from pyclient.spark.source.ranges import Range
from pyclient.spark.source.source_options import source_options

TP = TopicPartition("t", 0)
Step = Callable[[], int]
"""An action of a poll, which returns the number of records."""


class Clock:
    """Stands for ``time``. It advances by the time that the caller sleeps."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


clock = Clock()


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_reader, "time", clock)


class Scripted:
    """A consumer of a log from ``first`` up to ``last``. It polls by a script, and returns nothing after that."""

    def __init__(self, *script: Step | int | Exception, first: int = 0, last: int = 100) -> None:
        self.script, self.first, self.last = list(script), first, last
        self.place = self.end = 0

    def assign_range(self, tp: TopicPartition, start: int, end: int) -> None:
        self.place, self.end = start, end

    def position(self, tp: TopicPartition) -> int:
        return self.place

    def beginning_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return {TP: self.first}

    def end_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return {TP: self.last}

    def poll_arrow(self, rows: int, timeout: float, schema: Any) -> pa.RecordBatch:
        step = self.script.pop(0) if self.script else 0
        if isinstance(step, Exception):
            raise step
        count = step if isinstance(step, int) else step()
        before, self.place = self.place, self.place + count
        if not count:
            clock.sleep(timeout)
        return pa.record_batch({"value": [b"%d" % number for number in range(before, self.place)]})

    def skip(self, count: int) -> Step:
        """Skips records of an aborted transaction."""

        def step() -> int:
            self.place += count
            return 0

        return step


def read(consumer: Scripted, topic_id: str = "", **more: str) -> list[int]:
    """Reads the offsets 10 to 49, and returns those of the records."""
    options = {
        "kafka.bootstrap.servers": "x:1",
        "subscribe": "t",
        "fetchOffset.numRetries": "0",
        "kafkaConsumer.pollTimeoutMs": "5000",
        **more,
    }
    typed = source_options(options, Use.READ)
    how = RangeReader(typed, columns_of(StructType([StructField("value", BinaryType())]), typed))
    reading = _Reading(how, consumer, RangePartition(Range(TP, 10, 50), topic_id))  # type: ignore[arg-type]
    return [int(value) for batch in reading.batches() for value in batch.column(0).to_pylist()]


@pytest.mark.parametrize("error", [OffsetOutOfRange(), LogTruncation(TP, 20, None)])
@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_fetch_is_repeated_if_the_log_has_the_position_after_all(error: Exception, fails: str) -> None:
    assert read(Scripted(10, error, 30), failOnDataLoss=fails) == list(range(10, 50))


@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_position_in_the_log_that_is_always_refused_fails_the_task(fails: str) -> None:
    refused: list[Exception] = [OffsetOutOfRange() for _ in range(1000)]
    with pytest.raises(RequestTimedOut, match="Cannot fetch record for offset 10 of t-0 in 5000 milliseconds"):
        read(Scripted(*refused), failOnDataLoss=fails)


@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_task_waits_for_a_log_that_lags_behind_its_range(fails: str) -> None:
    assert read(Scripted(10, 0, 0, 30, last=20), failOnDataLoss=fails) == list(range(10, 50))


@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_log_that_never_reaches_the_range_is_a_timeout_and_not_data_loss(fails: str) -> None:
    with pytest.raises(RequestTimedOut, match="Cannot fetch record for offset 20 of t-0 in 5000 milliseconds"):
        read(Scripted(10, last=20), failOnDataLoss=fails)


def test_offsets_before_the_log_start_are_data_loss_and_the_rest_is_read() -> None:
    with pytest.raises(DataLoss, match="Offsets 10 to 29 of t-0 are gone: the log has offsets 30 to 100 now"):
        read(Scripted(OffsetOutOfRange(), 20, first=30))
    assert read(Scripted(OffsetOutOfRange(), 20, first=30), failOnDataLoss="false") == list(range(30, 50))
    assert read(Scripted(OffsetOutOfRange(), first=70), failOnDataLoss="false") == []


def test_offsets_beyond_the_log_end_are_data_loss() -> None:
    with pytest.raises(DataLoss, match="Offsets 20 to 49 of t-0 are gone: the log has offsets 0 to 5 now"):
        read(Scripted(10, OffsetOutOfRange(), last=5))
    assert read(Scripted(10, OffsetOutOfRange(), last=5), failOnDataLoss="false") == list(range(10, 20))


def test_a_task_continues_as_long_as_its_position_advances() -> None:
    consumer = Scripted(10)
    consumer.script += [consumer.skip(3) for _ in range(8)] + [6]
    assert read(consumer) == [*range(10, 20), *range(44, 50)]


@pytest.mark.parametrize("now", ["other", "same", None])
def test_a_timeout_is_data_loss_if_the_topic_is_another(monkeypatch: pytest.MonkeyPatch, now: str | None) -> None:
    monkeypatch.setattr(range_reader.LogOffsets, "id_of", lambda offsets, topic: now)
    wrong = DataLoss if now == "other" else RequestTimedOut
    with pytest.raises(wrong, match="created again" if now == "other" else "Cannot fetch"):
        read(Scripted(10), topic_id="same")


class Faulty:
    """A consumer that still has a fetched error when its task has ended."""

    def __init__(self, config: Any) -> None:
        self.is_closed = False

    def assignment(self) -> list[TopicPartition]:
        return [TopicPartition("flights", 0)]

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Removes all partitions."""

    def poll(self, timeout: float) -> None:
        raise OffsetOutOfRange

    def close(self, timeout: float) -> None:
        self.is_closed = True


def test_a_consumer_with_an_error_from_its_last_task_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "Consumer", Faulty)
    with consumer_of({"client.id": "faulty"}) as consumer:
        pass
    assert isinstance(consumer, Faulty)
    assert consumer.is_closed
    with consumer_of({"client.id": "faulty"}) as second:
        assert second is not consumer

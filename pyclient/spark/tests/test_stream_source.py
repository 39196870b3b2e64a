"""The decisions of a stream's driver, about logs that a test moves at will."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pytest

from pyclient import TopicPartition
from pyclient.spark.options import Use
from pyclient.spark.source import stream_source
from pyclient.spark.source.data_loss import DataLoss
from pyclient.spark.source.offsets import Offsets
from pyclient.spark.source.source_options import SourceOptions, source_options
from pyclient.spark.source.stream_source import StreamSource

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)
LAX = {"failOnDataLoss": "false"}


class Logs:
    """Stands for ``LogOffsets``: one topic, whose logs begin at 0."""

    def __init__(self, options: SourceOptions) -> None:
        self.ends: Offsets = {ZERO: 0}
        self.topic_ids = {"t": "first"}

    def partitions(self, *, missing_is_error: bool = True) -> Collection[TopicPartition]:
        return frozenset(self.ends)

    def latest(self, partitions: Collection[TopicPartition], known: Mapping[TopicPartition, int]) -> Offsets:
        return {tp: self.ends[tp] for tp in partitions}

    def earliest(self, partitions: Collection[TopicPartition]) -> Offsets:
        return dict.fromkeys(partitions, 0)

    def bytes_of(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self.ends[tp] for tp in partitions}


@pytest.fixture(autouse=True)
def _logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_source, "LogOffsets", Logs)


def made(clock: Any = lambda: 0.0, **options: str) -> tuple[StreamSource, Logs]:
    """Returns a source as a new process has it."""
    given = {"kafka.bootstrap.servers": "x:1", "subscribe": "t", **options}
    source = StreamSource(source_options(given, Use.STREAM_READ), clock)
    logs = source._offsets
    assert isinstance(logs, Logs)
    return source, logs


def spans(source: StreamSource, start: Offsets, end: Offsets) -> list[tuple[int, int, int]]:
    return [(each.tp.partition, each.start, each.end) for each in source.ranges(start, end)]


def test_a_batch_without_a_start_never_ends_before_the_checkpoint() -> None:
    source, logs = made(maxOffsetsPerTrigger="100", **{"kafka.group.id": "g"})
    source._initial = {}
    logs.ends = {ZERO: 20_000, ONE: 950}
    logs.admin = Group({ZERO: 900, ONE: 900})  # type: ignore[attr-defined]  # the last batch is not there
    checkpoint = {ZERO: 950, ONE: 950}
    end = source.latest_of_unknown_start(None)
    assert end == logs.ends
    assert spans(source, checkpoint, end) == [(0, 950, 20_000)]
    logs.ends = {ZERO: 30_000, ONE: 950}
    assert source.latest_of_unknown_start(end) == {ZERO: 20_100, ONE: 950}


class Group:
    """Stands for an ``Admin`` that knows the group."""

    def __init__(self, offsets: Offsets) -> None:
        self.offsets = offsets

    def list_consumer_group_offsets(self, group: str) -> dict[TopicPartition, Any]:
        return {tp: Offset(offset) for tp, offset in self.offsets.items()}

    def alter_consumer_group_offsets(self, group: str, offsets: Offsets, *, timeout: float) -> None:
        self.offsets = offsets


class Offset:
    """Stands for a committed offset of the group."""

    def __init__(self, offset: int) -> None:
        self.offset = offset


@pytest.mark.parametrize("limit", [{}, {"maxOffsetsPerTrigger": "10"}])
def test_available_now_never_ends_before_the_start(limit: dict[str, str]) -> None:
    source, logs = made(**LAX, **limit)
    logs.ends = {ZERO: 90}  # the leader has just been elected
    source.aim()
    start = {ZERO: 100}
    assert source.latest(start, is_limited=bool(limit)) == start
    logs.ends = {ZERO: 120}
    assert source.latest(start, is_limited=bool(limit)) == start
    assert spans(source, start, start) == []


def test_available_now_ends_at_the_end_of_a_topic_created_again() -> None:
    source, logs = made(**LAX, maxOffsetsPerTrigger="50")
    logs.ends = {ZERO: 100}
    source.aim()
    start = source.latest({ZERO: 0}, is_limited=True)
    logs.ends, logs.topic_ids = {ZERO: 30}, {"t": "second"}
    end = source.latest(start, is_limited=True)
    assert end == {ZERO: 30}
    assert spans(source, start, end) == [(0, 0, 30)]
    logs.ends = {ZERO: 80}
    assert source.latest(end, is_limited=True) == end


def test_a_log_that_is_shorter_after_a_restart_is_data_loss_or_waited_for() -> None:
    strict, logs = made()
    start = {ZERO: 100}
    logs.ends = {ZERO: 90}
    for _ in range(2):
        with pytest.raises(DataLoss, match="Partition t-0's offset was changed from 100 to 90"):
            strict.latest(start, is_limited=False)
    logs.ends = {ZERO: 110}  # the leader knows by now
    assert spans(strict, start, strict.latest(start, is_limited=False)) == [(0, 100, 110)]
    lax, logs = made(**LAX)
    logs.ends = {ZERO: 90}
    assert lax.latest(start, is_limited=False) == start
    logs.ends = {ZERO: 110}
    assert spans(lax, start, lax.latest(start, is_limited=False)) == [(0, 100, 110)]


def test_a_shorter_log_of_the_same_topic_is_waited_for_even_if_loss_fails() -> None:
    source, logs = made()
    logs.ends = {ZERO: 100}
    start = source.latest({ZERO: 0}, is_limited=False)
    logs.ends = {ZERO: 90}
    assert source.latest(start, is_limited=False) == start


def test_a_batch_whose_end_precedes_its_start_is_data_loss_or_empty() -> None:
    strict, _ = made()
    with pytest.raises(DataLoss, match="changed from 100 to 90"):
        strict.ranges({ZERO: 100}, {ZERO: 90})
    assert made(**LAX)[0].ranges({ZERO: 100}, {ZERO: 90}) == []


def test_a_minimum_counts_a_topic_created_again_from_its_first_record() -> None:
    now = [0.0]
    source, logs = made(lambda: now[0], **LAX, minOffsetsPerTrigger="10", maxTriggerDelay="60s")
    logs.ends = {ZERO: 5000}
    start = source.latest({ZERO: 0}, is_limited=True)
    logs.ends, logs.topic_ids = {ZERO: 4}, {"t": "second"}
    assert source.latest(start, is_limited=True) == start
    now[0] = 61.0
    end = source.latest(start, is_limited=True)
    assert spans(source, start, end) == [(0, 0, 4)]
    logs.ends = {ZERO: 14}
    assert source.latest(end, is_limited=True) == {ZERO: 14}


def test_a_limit_counts_a_topic_created_again_from_its_first_record() -> None:
    source, logs = made(**LAX, maxOffsetsPerTrigger="10")
    logs.ends = {ZERO: 50}
    start = source.latest({ZERO: 0}, is_limited=False)
    logs.ends, logs.topic_ids = {ZERO: 300}, {"t": "second"}
    end = source.latest(start, is_limited=True)
    assert spans(source, start, end) == [(0, 0, 10)]


@pytest.mark.parametrize("limit", [{}, {"maxOffsetsPerTrigger": "10"}, {"maxBytesPerTrigger": "10"}])
def test_a_topic_missing_for_a_moment_continues_at_its_offset(limit: dict[str, str]) -> None:
    source, logs = made(**LAX, **limit)
    logs.ends = {ZERO: 900}
    assert source.latest({ZERO: 900}, is_limited=True) == {ZERO: 900}
    logs.ends, logs.topic_ids = {}, {}
    assert source.latest({ZERO: 900}, is_limited=True) == {ZERO: 900}
    logs.ends, logs.topic_ids = {ZERO: 905}, {"t": "first"}
    assert spans(source, {ZERO: 900}, source.latest({ZERO: 900}, is_limited=not limit)) == [(0, 900, 905)]


def test_a_topic_that_was_missing_and_created_again_starts_again() -> None:
    source, logs = made(**LAX)
    logs.ends = {ZERO: 900}
    source.latest({ZERO: 900}, is_limited=False)
    logs.ends, logs.topic_ids = {}, {}
    assert source.latest({ZERO: 900}, is_limited=False) == {ZERO: 900}
    logs.ends, logs.topic_ids = {ZERO: 5}, {"t": "second"}
    assert spans(source, {ZERO: 900}, source.latest({ZERO: 900}, is_limited=False)) == [(0, 0, 5)]

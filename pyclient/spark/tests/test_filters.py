"""Filters that the log serves."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pyspark.sql import datasource

from pyclient.spark import api
from pyclient.spark.source.ranges import Range
from pyclient.topic_partition import TopicPartition

if not api.HAS_FILTERS:
    pytest.skip("Spark pushes filters since 4.1", allow_module_level=True)

from pyclient.spark.source.filters import Narrowing

RANGES = [Range(TopicPartition(topic, number), 10, 100) for topic in ("flights", "routes") for number in (0, 1)]


def left(*filters: object) -> list[tuple[str, int, int, int]]:
    narrowing = Narrowing()
    assert all(narrowing.take(each) for each in filters)
    return [(*each.tp, each.start, each.end) for each in narrowing.of(RANGES) if each.size > 0]


def test_topics_and_partitions_that_a_filter_excludes_are_not_read() -> None:
    here = datasource.EqualTo(("topic",), "flights")
    assert left(here, datasource.In(("partition",), (1, 7))) == [("flights", 1, 10, 100)]
    assert left(datasource.Not(here), datasource.LessThan(("partition",), 1)) == [("routes", 0, 10, 100)]
    assert left(datasource.StringStartsWith(("topic",), "rou"), datasource.GreaterThan(("partition",), 0)) == [
        ("routes", 1, 10, 100)
    ]


def test_a_filter_on_offsets_limits_the_range() -> None:
    one = datasource.EqualTo(("topic",), "flights"), datasource.EqualTo(("partition",), 0)
    after, before = datasource.GreaterThan(("offset",), 20), datasource.LessThanOrEqual(("offset",), 30)
    assert left(*one, after, before) == [("flights", 0, 21, 31)]
    assert left(*one, datasource.EqualTo(("offset",), 50)) == [("flights", 0, 50, 51)]
    assert left(*one, datasource.GreaterThanOrEqual(("offset",), 100)) == []


@pytest.mark.parametrize(
    ("kind", "micros", "since_ms"),
    [("GreaterThanOrEqual", 5000, 5), ("GreaterThanOrEqual", 5001, 6), ("GreaterThan", 5000, 6), ("EqualTo", 5000, 5)],
)
def test_a_filter_on_time_sets_the_start_and_spark_filters_again(kind: str, micros: int, since_ms: int) -> None:
    narrowing = Narrowing()
    moment = datetime.fromtimestamp(0, UTC).replace(microsecond=micros)
    assert not narrowing.take(getattr(datasource, kind)(("timestamp",), moment))
    assert narrowing.since_ms == since_ms


def test_filters_that_the_log_cannot_apply_are_left_to_spark() -> None:
    narrowing = Narrowing()
    assert not narrowing.take(datasource.EqualTo(("value",), b"v"))
    assert not narrowing.take(datasource.In(("offset",), (1, 2)))
    assert not narrowing.take(datasource.EqualNullSafe(("topic",), None))
    assert not narrowing.take(datasource.IsNotNull(("key",)))
    assert not narrowing.take(datasource.LessThan(("timestamp",), datetime.now(UTC)))
    assert narrowing.take(datasource.IsNotNull(("offset",)))
    assert list(narrowing.of(RANGES)) == RANGES

"""Offsets, ranges and limits: decisions that need no broker."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyclient.errors import ConfigError
from pyclient.spark.source.durations import milliseconds
from pyclient.spark.source.limits import Patience, at_most, at_most_bytes, count
from pyclient.spark.source.offsets import from_json, partition_offsets, partition_times, partitions, to_json
from pyclient.spark.source.ranges import Range, split
from pyclient.topic_partition import TopicPartition

places = st.builds(TopicPartition, st.sampled_from(("a", "b-c", "d")), st.integers(0, 12))
offsets = st.dictionaries(places, st.integers(0, 2**60), max_size=8)


@given(offsets)
def test_offsets_have_the_same_text_in_any_order(some: dict) -> None:
    turned = dict(reversed(some.items()))
    assert json.dumps(to_json(some)) == json.dumps(to_json(turned))
    assert from_json(json.loads(json.dumps(to_json(some)))) == some


def test_offsets_are_read_as_spark_writes_them() -> None:
    assert partition_offsets('{"t":{"0":23,"1":-2},"u":{"0":-1}}') == {("t", 0): 23, ("t", 1): -2, ("u", 0): -1}
    assert partition_times('{"t":{"0":1700000000000}}') == {("t", 0): 1_700_000_000_000}
    assert partitions('{"t":[0,2]}') == [("t", 0), ("t", 2)]


@pytest.mark.parametrize("text", ["", "x", "[1]", '{"t":3}', '{"t":{"a":1}}', '{"t":{"0":-3}}', '{"t":{"0":"1"}}'])
def test_the_error_about_invalid_offsets_shows_an_example(text: str) -> None:
    with pytest.raises(ConfigError, match=r"Expected e\.g\. .*topicA.*got"):
        partition_offsets(text)


def test_a_time_before_1970_and_a_negative_partition_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"Expected e\.g\."):
        partition_times('{"t":{"0":-1}}')
    with pytest.raises(ConfigError, match=r"Expected e\.g\."):
        partitions('{"t":[-1]}')


sizes = st.lists(st.integers(0, 5000), min_size=1, max_size=6)


@given(sizes, st.none() | st.integers(1, 20), st.none() | st.integers(1, 400))
def test_split_ranges_cover_each_offset_once_and_keep_the_limit(
    some: list, at_least: int | None, at_most: int | None
) -> None:
    ranges = [Range(TopicPartition("t", number), 10, 10 + size) for number, size in enumerate(some)]
    parts = split(ranges, at_least, at_most)
    assert all(part.size > 0 for part in parts)
    assert at_most is None or all(part.size <= at_most for part in parts)
    for whole in ranges:
        own = [part for part in parts if part.tp == whole.tp]
        edges = [own[0].start, *(part.end for part in own)] if own else [whole.start]
        assert [part.start for part in own] == edges[:-1]
        assert (edges[0], edges[-1]) == (whole.start, whole.end)


def test_ranges_are_split_as_spark_splits_them() -> None:
    """The cases of KafkaOffsetRangeCalculatorSuite."""

    def made(at_least: int, *sizes: int) -> list[tuple[int, int, int]]:
        ranges = [Range(TopicPartition("t", number), 1, 1 + size) for number, size in enumerate(sizes, 1)]
        return [(part.tp.partition, part.start, part.end) for part in split(ranges, at_least)]

    assert made(3, 4) == [(1, 1, 2), (1, 2, 3), (1, 3, 5)]
    assert made(4, 100, 4) == [(1, 1, 34), (1, 34, 67), (1, 67, 101), (2, 1, 5)]
    assert made(2, 10, 10, 10) == [(1, 1, 11), (2, 1, 11), (3, 1, 11)]


@given(offsets, st.dictionaries(places, st.integers(0, 10**6), max_size=8), st.integers(1, 10**6))
def test_a_batch_never_passes_the_end_and_roughly_keeps_its_limit(start: dict, more: dict, limit: int) -> None:
    start = dict.fromkeys(more, 0) | start
    end = {tp: start[tp] + size for tp, size in more.items()}
    reached = at_most(limit, start, end)
    assert all(start[tp] <= reached[tp] <= end[tp] for tp in end)
    assert count(start, reached) <= limit + len(end)
    assert not count(start, end) or count(start, reached)


def test_a_limit_in_bytes_uses_the_record_size_of_each_partition() -> None:
    small, large = TopicPartition("t", 0), TopicPartition("t", 1)
    start, end = {small: 0, large: 0}, {small: 1000, large: 1000}
    reached = at_most_bytes(110_000, start, end, {small: 100.0, large: 1000.0})
    assert reached == {small: 100, large: 100}
    assert at_most_bytes(2_000_000, start, end, {small: 100.0, large: 1000.0}) == end


def test_the_first_batch_does_not_wait_and_the_next_waits_for_records_or_time() -> None:
    patience = Patience(100, 5000)
    assert not patience.wants_more(1, now=0.0)
    assert patience.wants_more(99, now=4.9)
    assert not patience.wants_more(99, now=5.1)
    assert patience.wants_more(0, now=6.0)
    assert not patience.wants_more(100, now=6.1)
    assert not Patience(None, 5000).wants_more(0, now=6.2)


@pytest.mark.parametrize(
    ("text", "ms"), [("15m", 900_000), (" 30S ", 30_000), ("250ms", 250), ("7", 7), ("1h", 3_600_000)]
)
def test_times_are_read_as_spark_reads_them(text: str, ms: int) -> None:
    assert milliseconds("maxTriggerDelay", text) == ms


@pytest.mark.parametrize("text", ["", "soon", "5 weeks", "-1s", "1.5s"])
def test_the_error_about_an_invalid_duration_names_the_option(text: str) -> None:
    with pytest.raises(ConfigError, match="maxTriggerDelay"):
        milliseconds("maxTriggerDelay", text)

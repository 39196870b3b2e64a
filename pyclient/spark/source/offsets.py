"""Offsets in JSON, as users write them and checkpoints keep them, in the form of Spark's ``kafka``. No I/O.

A query gives its start and its end in one of four ways. It names the earliest or latest record everywhere, an offset
for each partition, a time for each partition, or one time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from pyclient.errors import ConfigError
from pyclient.topic_partition import TopicPartition

EARLIEST: Final = -2
LATEST: Final = -1

Offsets = dict[TopicPartition, int]
Json = dict[str, dict[str, int]]

_OFFSETS: Final = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
_TIMES: Final = '{"topicA":{"0":123456789,"1":123456789},"topicB":{"0":123456789,"1":123456789}}'
_PARTITIONS: Final = '{"topicA":[0,1],"topicB":[0,1]}'


class Edge(NamedTuple):
    """EARLIEST or LATEST of every partition."""

    offset: int


class Specific(NamedTuple):
    """An offset of each partition, which may be EARLIEST or LATEST."""

    offsets: Mapping[TopicPartition, int]


class Times(NamedTuple):
    """A time for each partition, in ms: the first record at or after it."""

    times: Mapping[TopicPartition, int]


class Time(NamedTuple):
    """One time for every partition, in ms."""

    ms: int


Place = Edge | Specific | Times | Time


def to_json(offsets: Mapping[TopicPartition, int]) -> Json:
    """Returns the offsets as JSON, in a fixed order, because Spark compares offsets by their text."""
    found: Json = {}
    for tp in sorted(offsets):
        found.setdefault(tp.topic, {})[str(tp.partition)] = offsets[tp]
    return found


def from_json(given: Mapping[str, Mapping[str, int]]) -> Offsets:
    """Returns the offsets from the result of ``to_json``."""
    return {
        TopicPartition(topic, int(number)): offset
        for topic, rows in given.items()
        for number, offset in rows.items()
    }


def partition_offsets(text: str) -> Offsets:
    """Parses ``{"topic":{"0":23,"1":-2}}``. Raises ConfigError."""
    return _by_partition(text, _OFFSETS, lowest=EARLIEST)


def partition_times(text: str) -> Offsets:
    """Parses ``{"topic":{"0":1700000000000}}``. Raises ConfigError."""
    return _by_partition(text, _TIMES, lowest=0)


def partitions(text: str) -> list[TopicPartition]:
    """Parses ``{"topic":[0,1]}``. Raises ConfigError."""
    try:
        given = json.loads(text)
        found = [TopicPartition(topic, _number(each)) for topic, numbers in given.items() for each in numbers]
    except (ValueError, TypeError, AttributeError):
        raise _expected(_PARTITIONS, text) from None
    return found


def named(rows: Iterable[TopicPartition]) -> str:
    """Returns the partitions for a message."""
    return ", ".join(map(str, sorted(rows)))


def _by_partition(text: str, example: str, lowest: int) -> Offsets:
    try:
        found = {
            TopicPartition(topic, int(number)): _number(offset, lowest)
            for topic, rows in json.loads(text).items()
            for number, offset in rows.items()
        }
    except (ValueError, TypeError, AttributeError):
        raise _expected(example, text) from None
    return found


def _number(given: Any, lowest: int = 0) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or given < lowest:
        raise ValueError(given)
    return given


def _expected(example: str, text: str) -> ConfigError:
    return ConfigError(f"Expected e.g. {example}, got {text}")

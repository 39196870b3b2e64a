"""Checks a user's options of a source as Spark's ``kafka`` does, with its messages where they fit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyclient.config import CONSUMER, load
from pyclient.errors import ConfigError
from pyclient.spark.options import Given, Use, read
from pyclient.spark.source.durations import milliseconds
from pyclient.spark.source.offsets import (
    EARLIEST,
    LATEST,
    Edge,
    Place,
    Specific,
    Time,
    Times,
    partition_offsets,
    partition_times,
    partitions,
)
from pyclient.topic_partition import TopicPartition

Subscribed = tuple[str, ...] | re.Pattern[str] | tuple[TopicPartition, ...]

_WAYS: Final = ("subscribe", "subscribePattern", "assign")
_REFUSED: Final = {
    "auto.offset.reset": (
        "Instead set the source option 'startingOffsets' to 'earliest' or 'latest' to specify where to start. "
        "Structured Streaming manages which offsets are consumed internally; 'startingOffsets' only applies when "
        "a new query is started, and resuming will always pick up from where the query left off."
    ),
    "key.deserializer": "Keys are byte arrays. Use DataFrame operations to explicitly deserialize the keys.",
    "value.deserializer": "Values are byte arrays. Use DataFrame operations, or the option 'valueFormat'.",
    "enable.auto.commit": "Set 'kafka.group.id' or 'groupIdPrefix' to have finished batches committed to a group.",
    "interceptor.classes": "",
}


@dataclass(frozen=True)
class SourceOptions:
    """The options of one source. Can be pickled."""

    subscribed: Subscribed
    """The topics, a pattern for their names, or partitions."""
    is_assigned: bool
    """True if ``subscribed`` has partitions."""
    starting: Place
    ending: Place
    starts_latest_without_match: bool
    """True if a query starts at the end of a partition without a record at or after its start time; otherwise this is
    an error.
    """
    max_offsets: int | None
    min_offsets: int | None
    max_bytes: int | None
    max_delay_ms: int
    min_partitions: int | None
    max_records: int | None
    fails_on_loss: bool
    group: str | None
    """The group to which offsets are committed."""
    poll_timeout_ms: int
    retries: int
    retry_interval_ms: int
    value_format: str
    value_schema: str | None
    value_prefix: str
    value_schema_id: int | None
    value_errors: str
    client: Mapping[str, str] = field(repr=False)
    """The settings of the client (``kafka.*``), as given."""

    @property
    def isolation(self) -> str:
        """The setting isolation.level: ``read_uncommitted`` or ``read_committed``."""
        return self.client.get("isolation.level", "read_uncommitted").strip()


def source_options(options: Mapping[str, str], use: Use) -> SourceOptions:
    """Returns the options of a source. Raises ConfigError, which names the option and the correct value."""
    given = read(options, use)
    _check_client(given)
    subscribed = _subscribed(given)
    _check_limits(given)
    default = LATEST if use == Use.STREAM_READ else EARLIEST
    made = SourceOptions(
        subscribed=subscribed,
        is_assigned="assign" in given,
        starting=_place(given, "starting", Edge(default)),
        ending=_place(given, "ending", Edge(LATEST)),
        starts_latest_without_match=given["startingOffsetsByTimestampStrategy"] == "latest",
        max_offsets=given["maxOffsetsPerTrigger"],
        min_offsets=given["minOffsetsPerTrigger"],
        max_bytes=given["maxBytesPerTrigger"],
        max_delay_ms=milliseconds("maxTriggerDelay", given["maxTriggerDelay"]),
        min_partitions=given["minPartitions"],
        max_records=given["maxRecordsPerPartition"],
        fails_on_loss=given["failOnDataLoss"],
        group=_group(given),
        poll_timeout_ms=given["kafkaConsumer.pollTimeoutMs"],
        retries=given["fetchOffset.numRetries"],
        retry_interval_ms=given["fetchOffset.retryIntervalMs"],
        value_format=given["valueFormat"],
        value_schema=given["valueSchema"],
        value_prefix=given["valuePrefix"],
        value_schema_id=given["valueSchemaId"],
        value_errors=given["valueErrors"],
        client=given.client,
    )
    if use == Use.BATCH_READ:
        _check_batch(made)
    return made


def _check_client(given: Given) -> None:
    for name, instead in _REFUSED.items():
        if name in given.client:
            raise ConfigError(f"Kafka option '{name}' is not supported. {instead}".rstrip())
    if not given.client.get("bootstrap.servers"):
        raise ConfigError("Option 'kafka.bootstrap.servers' must be specified for configuring Kafka consumer")
    load(CONSUMER, config=given.client)


def _subscribed(given: Given) -> Subscribed:
    ways = [name for name in _WAYS if name in given]
    if len(ways) != 1:
        which = "One" if not ways else "Only one"
        verb = "must" if not ways else "can"
        raise ConfigError(f"{which} of the following options {verb} be specified for a source: {', '.join(_WAYS)}")
    text = given[ways[0]].strip()
    if ways == ["subscribe"]:
        topics = tuple(dict.fromkeys(each.strip() for each in text.split(",") if each.strip()))
        if not topics:
            raise ConfigError(f"No topics to subscribe to as specified value for option 'subscribe' is '{text}'")
        return topics
    if ways == ["assign"]:
        if not text.startswith("{"):
            raise ConfigError(f"No topicpartitions to assign as specified value for option 'assign' is '{text}'")
        return tuple(sorted(set(partitions(text))))
    return _pattern(text)


def _pattern(text: str) -> re.Pattern[str]:
    if not text:
        raise ConfigError("Pattern to subscribe is empty as specified value for option 'subscribePattern' is ''")
    try:
        return re.compile(text)
    except re.error as error:
        raise ConfigError(f"subscribePattern={text!r} is not a regular expression: {error}") from None


def _place(given: Given, which: str, default: Place) -> Place:
    """Returns the position. One time takes precedence over times, and times over offsets."""
    if f"{which}Timestamp" in given:
        return Time(given[f"{which}Timestamp"])
    if f"{which}OffsetsByTimestamp" in given:
        return Times(partition_times(given[f"{which}OffsetsByTimestamp"]))
    if f"{which}Offsets" not in given:
        return default
    text = given[f"{which}Offsets"].strip()
    edge = {"earliest": EARLIEST, "latest": LATEST}.get(text.lower())
    return Specific(partition_offsets(text)) if edge is None else Edge(edge)


def _check_limits(given: Given) -> None:
    low, high = given["minOffsetsPerTrigger"], given["maxOffsetsPerTrigger"]
    if low is not None and high is not None and low > high:
        raise ConfigError(
            f"The value of minOffsetsPerTrigger({low}) is higher than the maxOffsetsPerTrigger({high})."
        )


def _check_batch(made: SourceOptions) -> None:
    for place, wrong, word in ((made.starting, LATEST, "latest"), (made.ending, EARLIEST, "earliest")):
        which = "starting" if wrong == LATEST else "ending"
        if place == Edge(wrong):
            raise ConfigError(f"{which} offset can't be {word} for batch queries on Kafka")
        for tp, offset in place.offsets.items() if isinstance(place, Specific) else ():
            if offset == wrong:
                raise ConfigError(f"{which}Offsets for {tp} can't be {word} for batch queries on Kafka")


def _group(given: Given) -> str | None:
    """Returns the group's name. It stays the same over restarts, so lag can be watched and rights can be granted."""
    own = given.client.get("group.id")
    prefix: str | None = given["groupIdPrefix"]
    if own or prefix is None:
        return own
    (what,) = (given[name] for name in _WAYS if name in given)
    return f"{prefix}-{_legible(what)}"


def _legible(text: Any) -> str:
    return re.sub(r"[^a-zA-Z0-9._]+", "-", str(text)).strip("-")[:200]

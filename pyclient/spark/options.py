"""The options of the data source: one table, and how a user's options are read against it.

Names are those of Spark's ``kafka``, in any case. An option that the table lacks is an error with the
most similar name; ``kafka.*`` is passed to the client (``pyclient.config``), which says what it lacks.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Flag, auto
from typing import Any, Final, NamedTuple

from pyclient.config.key import BOOL, INT, MAX_LONG, STRING, Key, Kind
from pyclient.errors import ConfigError

log = logging.getLogger(__name__)


class Use(Flag):
    """What is done with the data source."""

    BATCH_READ = auto()
    STREAM_READ = auto()
    BATCH_WRITE = auto()
    STREAM_WRITE = auto()
    READ = BATCH_READ | STREAM_READ
    WRITE = BATCH_WRITE | STREAM_WRITE


class Option(NamedTuple):
    """One row of the table; ``default`` None: not set. ``low`` bounds numbers, ``words`` are a string's values."""

    name: str
    kind: Kind
    use: Use
    default: Any
    doc: str
    low: float | None = None
    words: tuple[str, ...] = ()

    def read(self, text: str) -> Any:
        """The typed value. Raises ConfigError that names the option."""
        high = MAX_LONG if self.kind is INT else None
        given = text.strip().lower() if self.words else text
        return Key(self.name, self.kind, self.default, self.doc, self.low, high, self.words).read(given)


_OFFSETS: Final = 'or JSON, `{"topic":{"0":23,"1":-2}}`, which names every partition: -2 is earliest, -1 latest'
_TIMES: Final = 'milliseconds by partition, `{"topic":{"0":1700000000000}}`'

OPTIONS: Final = (
    Option("subscribe", STRING, Use.READ, None, "topics, comma-separated"),
    Option("subscribePattern", STRING, Use.READ, None, "a regular expression for the names of topics"),
    Option("assign", STRING, Use.READ, None, 'partitions, `{"topic":[0,1]}`'),
    Option("startingOffsets", STRING, Use.READ, None,
           "`earliest` (a batch's default), `latest` (a stream's), " + _OFFSETS),
    Option("startingOffsetsByTimestamp", STRING, Use.READ, None, "the first record at or after a time: " + _TIMES),
    Option("startingTimestamp", INT, Use.READ, None, "the same time, in milliseconds, for every partition", 0),
    Option("startingOffsetsByTimestampStrategy", STRING, Use.READ, "error",
           "where no record is so late", words=("error", "latest")),
    Option("endingOffsets", STRING, Use.BATCH_READ, "latest", "`latest`, " + _OFFSETS),
    Option("endingOffsetsByTimestamp", STRING, Use.BATCH_READ, None, "the first record at or after a time is not read: "
           + _TIMES),
    Option("endingTimestamp", INT, Use.BATCH_READ, None, "the same time, in milliseconds, for every partition", 0),
    Option("maxOffsetsPerTrigger", INT, Use.STREAM_READ, None, "records of one micro-batch at most", 1),
    Option("minOffsetsPerTrigger", INT, Use.STREAM_READ, None, "records that one waits for", 1),
    Option("maxTriggerDelay", STRING, Use.STREAM_READ, "15m", "but not longer than this: `30s`, `15m`, `1h`"),
    Option("maxBytesPerTrigger", INT, Use.STREAM_READ, None, "bytes of one micro-batch at most, about", 1),
    Option("minPartitions", INT, Use.READ, None, "tasks of a batch at least, about: large partitions are split", 1),
    Option("maxRecordsPerPartition", INT, Use.READ, None, "records of one task at most", 1),
    Option("failOnDataLoss", BOOL, Use.READ | Use.WRITE, True,
           "records that are gone fail the query, or else are logged; so do batches of a sink that were lost"),
    Option("includeHeaders", BOOL, Use.READ, False, "adds the column `headers`"),
    Option("groupIdPrefix", STRING, Use.READ, None, "begins the name of the group whose offsets are committed"),
    Option("kafkaConsumer.pollTimeoutMs", INT, Use.READ, 120_000, "how long a task waits for records", 1),
    Option("fetchOffset.numRetries", INT, Use.READ, 3, "how often offsets are asked for again", 0),
    Option("fetchOffset.retryIntervalMs", INT, Use.READ, 1000, "milliseconds between these", 0),
    Option("valueFormat", STRING, Use.READ, "binary", "what values are; but for `binary`, `value` is a struct",
           words=("binary", "json", "avro")),
    Option("valueErrors", STRING, Use.READ, "fail", "a value that is not so fails the query, or is null",
           words=("fail", "null")),
    Option("valuePrefix", STRING, Use.READ, "none",
           "`registry`: values begin with a zero and four bytes of a schema's number, which are passed over",
           words=("none", "registry")),
    Option("valueSchemaId", INT, Use.READ, None, "that number; a value with another is an error", 0),
    Option("valueSchema", STRING, Use.READ, None, "its fields: `a INT, b STRING`, or for `avro` the schema in JSON"),
    Option("topic", STRING, Use.WRITE, None, "the topic of all rows; without it the column `topic` says it"),
    Option("delivery", STRING, Use.WRITE, "at-least-once",
           "`exactly-once`: a batch is seen wholly and once by readers of committed records",
           words=("at-least-once", "exactly-once")),
    Option("transactionalIdPrefix", STRING, Use.WRITE, "pybroker-spark", "begins the names of transactions: for ACLs"),
    Option("ledgerTopic", STRING, Use.WRITE, "__pybroker_spark_ledger",
           "where exactly-once keeps which batches are written; is created"),
    Option("writeId", STRING, Use.BATCH_WRITE, None,
           "the name of an exactly-once write: one of this name that was done is not done again"),
)
"""All options but ``kafka.*``."""

_BY_NAME: Final = {option.name.lower(): option for option in OPTIONS}
_OF_SPARK: Final = frozenset({"checkpointlocation", "queryname"})
"""Options for Spark itself that reach the source too."""


@dataclass(frozen=True)
class Given:
    """A user's options, typed: ``given["minPartitions"]``; those that were not set have their defaults."""

    values: Mapping[str, Any]
    is_set: frozenset[str]
    client: Mapping[str, str]
    """Of ``kafka.*``, without the prefix."""

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def __contains__(self, name: object) -> bool:
        return name in self.is_set


def read(options: Mapping[str, str], use: Use) -> Given:
    """The options of a reader or writer. Raises ConfigError for what is unknown, of no use here, or wrong."""
    values = {option.name: option.default for option in OPTIONS}
    client, is_set = {}, set()
    for name, text in options.items():
        if name.lower().startswith("kafka."):
            client[name.lower().removeprefix("kafka.")] = text
        elif name.lower() not in _OF_SPARK:
            option = _known(name, Use.READ if use == Use.BATCH_READ else use)
            if use == Use.BATCH_READ and option.use == Use.STREAM_READ:
                log.warning("%s option ignored in batch queries", option.name)
                continue
            values[option.name] = option.read(text)
            is_set.add(option.name)
    return Given(values, frozenset(is_set), client)


def _known(name: str, use: Use) -> Option:
    option = _BY_NAME.get(name.lower())
    if option is None:
        names = [known for known, row in _BY_NAME.items() if row.use & use]
        similar = difflib.get_close_matches(name.lower(), names, 1)
        hint = f": did you mean {_BY_NAME[similar[0]].name}?" if similar else ""
        raise ConfigError(f"unknown option {name!r}{hint}")
    if not option.use & use:
        raise ConfigError(f"{option.name} is not an option of {_named(use)}")
    return option


def _named(use: Use) -> str:
    return {
        Use.BATCH_READ: "spark.read", Use.STREAM_READ: "spark.readStream", Use.READ: "a source",
        Use.BATCH_WRITE: "DataFrame.write", Use.STREAM_WRITE: "DataFrame.writeStream",
    }.get(use, "a sink")

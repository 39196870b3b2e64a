"""The options of the data source: one table, and the check of a user's options by it.

Names are those of Spark's ``kafka``, in upper or lower case. An unknown option is an error that suggests the most
similar name. ``kafka.*`` goes to the client (``pyclient.config``), which refuses unknown settings itself.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Flag, auto
from typing import Any, Final, NamedTuple

from pyclient.config.key import BOOL, INT, MAX_LONG, STRING, Key, Kind
from pyclient.errors import ConfigError

log = logging.getLogger(__name__)


class Use(Flag):
    """The ways to use the data source."""

    BATCH_READ = auto()
    STREAM_READ = auto()
    BATCH_WRITE = auto()
    STREAM_WRITE = auto()
    READ = BATCH_READ | STREAM_READ
    WRITE = BATCH_WRITE | STREAM_WRITE


class Option(NamedTuple):
    """One row of the table. ``default`` None means not set. ``low`` is the least number, ``words`` a string's values.
    ``needs`` names another option and some of its values: without one of these values, this option has no effect.
    """

    name: str
    kind: Kind
    use: Use
    default: Any
    doc: str
    low: float | None = None
    words: tuple[str, ...] = ()
    needs: tuple[str, tuple[str, ...]] | None = None

    def read(self, text: str) -> Any:
        """Returns the typed value. Raises ConfigError that names the option."""
        high = MAX_LONG if self.kind is INT else None
        given = text.strip().lower() if self.words else text
        return Key(self.name, self.kind, self.default, self.doc, self.low, high, self.words).read(given)


_OFFSETS: Final = 'or JSON, `{"topic":{"0":23,"1":-2}}`, which names every partition: -2 is earliest, -1 latest'
_TYPED: Final = ("valueFormat", ("json", "avro"))
_EXACT: Final = ("delivery", ("exactly-once",))
_TIMES: Final = 'milliseconds by partition, `{"topic":{"0":1700000000000}}`'

OPTIONS: Final = (
    Option("subscribe", STRING, Use.READ, None, "topics, comma-separated"),
    Option("subscribePattern", STRING, Use.READ, None, "a regular expression for the names of topics"),
    Option("assign", STRING, Use.READ, None, 'partitions, `{"topic":[0,1]}`'),
    Option("startingOffsets", STRING, Use.READ, None,
           "`earliest` (a batch's default), `latest` (a stream's), " + _OFFSETS),
    Option("startingOffsetsByTimestamp", STRING, Use.READ, None,
           "starts at the first record at or after a time: " + _TIMES),
    Option("startingTimestamp", INT, Use.READ, None, "the same time, in milliseconds, for every partition", 0),
    Option("startingOffsetsByTimestampStrategy", STRING, Use.READ, "error",
           "what to do if no record is that late: `error` or `latest`", words=("error", "latest")),
    Option("endingOffsets", STRING, Use.BATCH_READ, "latest", "`latest`, " + _OFFSETS),
    Option("endingOffsetsByTimestamp", STRING, Use.BATCH_READ, None,
           "reads up to the first record at or after a time, exclusive: "
           + _TIMES),
    Option("endingTimestamp", INT, Use.BATCH_READ, None, "the same time, in milliseconds, for every partition", 0),
    Option("maxOffsetsPerTrigger", INT, Use.STREAM_READ, None, "the most records in a micro-batch", 1),
    Option("minOffsetsPerTrigger", INT, Use.STREAM_READ, None,
           "the fewest records in a micro-batch; it waits until there are as many", 1),
    Option("maxTriggerDelay", STRING, Use.STREAM_READ, "15m",
           "the longest wait for `minOffsetsPerTrigger`: `30s`, `15m`, `1h`"),
    Option("maxBytesPerTrigger", INT, Use.STREAM_READ, None, "the most bytes in a micro-batch, approximately", 1),
    Option("minPartitions", INT, Use.READ, None,
           "the fewest tasks in a batch, approximately: large partitions are split", 1),
    Option("maxRecordsPerPartition", INT, Use.READ, None, "the most records in a task", 1),
    Option("failOnDataLoss", BOOL, Use.READ | Use.WRITE, True,
           "whether lost records, and lost batches of a sink, fail the query; if not, they are logged"),
    Option("includeHeaders", BOOL, Use.READ, False, "adds the column `headers`"),
    Option("groupIdPrefix", STRING, Use.READ, None,
           "the beginning of the name of the group to which offsets are committed"),
    Option("kafkaConsumer.pollTimeoutMs", INT, Use.READ, 120_000, "how many milliseconds a task waits for records", 1),
    Option("fetchOffset.numRetries", INT, Use.READ, 3, "how often a failed request for offsets is repeated", 0),
    Option("fetchOffset.retryIntervalMs", INT, Use.READ, 1000, "milliseconds between these attempts", 0),
    Option("valueFormat", STRING, Use.READ, "binary",
           "the format of values: `binary`, `json` or `avro`; with the last two, `value` is a struct",
           words=("binary", "json", "avro")),
    Option("valueErrors", STRING, Use.READ, "fail",
           "a value that cannot be read fails the query (`fail`) or becomes null (`null`)",
           words=("fail", "null"), needs=_TYPED),
    Option("valuePrefix", STRING, Use.READ, "none",
           "`registry` skips the zero byte and the four bytes of a schema id at the start of each value",
           words=("none", "registry"), needs=_TYPED),
    Option("valueSchemaId", INT, Use.READ, None, "the expected schema id; a value with another one is an error", 0,
           needs=("valuePrefix", ("registry",))),
    Option("valueSchema", STRING, Use.READ, None,
           "the fields of `value`: `a INT, b STRING`, or for `avro` the schema in JSON",
           needs=_TYPED),
    Option("topic", STRING, Use.WRITE, None, "the topic of all rows; without it, the column `topic` names the topic"),
    Option("delivery", STRING, Use.WRITE, "at-least-once",
           "`exactly-once`: readers of committed records see each batch whole, and once",
           words=("at-least-once", "exactly-once")),
    Option("transactionalIdPrefix", STRING, Use.WRITE, "pybroker-spark",
           "the beginning of all transactional ids, for use in ACLs",
           needs=_EXACT),
    Option("ledgerTopic", STRING, Use.WRITE, "__pybroker_spark_ledger",
           "the topic in which exactly-once records which batches are written; it is created if missing", needs=_EXACT),
    Option("writeId", STRING, Use.BATCH_WRITE, None,
           "the name of an exactly-once write; a finished write of this name is not repeated", needs=_EXACT),
)
"""All options except ``kafka.*``."""

_BY_NAME: Final = {option.name.lower(): option for option in OPTIONS}
_OF_SPARK: Final = frozenset({"checkpointlocation", "queryname"})
"""Options for Spark itself, which it passes to the source as well."""


@dataclass(frozen=True)
class Given:
    """A user's options, with types: ``given["minPartitions"]``. Options that were not set have their defaults."""

    values: Mapping[str, Any]
    is_set: frozenset[str]
    client: Mapping[str, str] = field(repr=False)
    """The options ``kafka.*``, without the prefix."""

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def __contains__(self, name: object) -> bool:
        return name in self.is_set


def read(options: Mapping[str, str], use: Use) -> Given:
    """Returns the options of a reader or writer. Raises ConfigError for an unknown, inapplicable or wrong option."""
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
    for name in is_set:
        _check_needs(_BY_NAME[name.lower()], values)
    return Given(values, frozenset(is_set), client)


def _check_needs(option: Option, values: Mapping[str, Any]) -> None:
    """Raises ConfigError for an option that would have no effect, because its user expects an effect."""
    if option.needs is None:
        return
    other, words = option.needs
    if values[other] not in words:
        wanted = " or ".join(f"{other}={word}" for word in words)
        raise ConfigError(f"{option.name} has no effect without {wanted}: {other} is {values[other]!r}")


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

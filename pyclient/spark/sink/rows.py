"""Sends the columns of the sink, which are those of Spark's ``kafka``, from Arrow batches to a producer.

    value      string or binary, required; null is a tombstone
    key        string or binary
    topic      string; the option ``topic`` beats it
    partition  int; null: the producer chooses
    headers    array<struct<key: string, value: binary>>

A batch goes to the producer as columns, whole if all its rows have one topic and none names a partition. Otherwise it
is sorted by topic and partition, and split. Rows of one partition stay in order, and no object is made per row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]
import pyarrow.compute as pc  # type: ignore[import-untyped,unused-ignore]
from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, StringType, StructType

from pyclient.errors import ConfigError

if TYPE_CHECKING:
    from cy.produce.deliveries import Deliveries
    from pyclient.producer.blocking import Producer

BYTES: Final = (StringType, BinaryType)
COLUMNS: Final[dict[str, tuple[type[DataType], ...]]] = {
    "value": BYTES,
    "key": BYTES,
    "topic": (StringType,),
    "partition": (IntegerType,),
    "headers": (ArrayType,),
}
HEADERS: Final = "array<struct<key:string,value:binary>>"


class Rows(NamedTuple):
    """How the rows of a DataFrame are sent."""

    topic: str | None
    """The topic of all rows. None: the column names each row's topic."""
    columns: frozenset[str]

    def send(self, producer: Producer, batch: pa.RecordBatch) -> list[Deliveries]:
        """Sends the rows. Waits only for room in the buffer. Raises KafkaError, and ConfigError for a null topic."""
        return [
            producer.send_many(
                topic,
                part.column("value"),
                part.column("key") if "key" in self.columns else None,
                partition=partition,
                headers=part.column("headers") if "headers" in self.columns else None,
            )
            for topic, partition, part in self._parts(batch)
        ]

    def _parts(self, batch: pa.RecordBatch) -> Iterator[tuple[str, int | None, pa.RecordBatch]]:
        """Yields each topic and partition, with the rows for it."""
        by = [name for name in ("topic", "partition") if name in self.columns and not (name == "topic" and self.topic)]
        if "topic" in by and batch.column("topic").null_count:
            raise ConfigError("column topic: null in the data; use the option topic for all rows")
        if not by:
            yield self.topic or "", None, batch
            return
        batch = batch.take(pc.sort_indices(batch, sort_keys=[(name, "ascending") for name in by]))
        at = 0
        for row in pa.table({name: batch.column(name) for name in by}).group_by(by, use_threads=False).aggregate(
            [([], "count_all")]
        ).to_pylist():
            count = row["count_all"]
            yield self.topic or row["topic"], _checked(row.get("partition")), batch.slice(at, count)
            at += count


def rows_of(schema: StructType, topic: str | None) -> Rows:
    """Returns how the sink sends a DataFrame with this schema. Raises ConfigError, which names the column."""
    given = {field.name: field.dataType for field in schema.fields}
    if "value" not in given:
        raise ConfigError(f"the column value is missing: there are {', '.join(given) or 'none'}")
    if topic is None and "topic" not in given:
        raise ConfigError("no topic: give the option topic, or a column topic")
    for name, kinds in COLUMNS.items():
        if name in given:
            _check(name, given[name], kinds)
    return Rows(topic, frozenset(COLUMNS) & frozenset(given))


def _check(name: str, kind: DataType, kinds: tuple[type[DataType], ...]) -> None:
    right = isinstance(kind, kinds) and (name != "headers" or _are_headers(kind))
    if not right:
        wanted = HEADERS if name == "headers" else " or ".join(each.typeName() for each in kinds)
        raise ConfigError(f"the column {name} is {kind.simpleString()}; it must be {wanted}")


def _are_headers(kind: DataType) -> bool:
    element = kind.elementType if isinstance(kind, ArrayType) else None
    return (
        isinstance(element, StructType)
        and [(field.name, type(field.dataType)) for field in element.fields]
        == [("key", StringType), ("value", BinaryType)]
    )


def _checked(partition: int | None) -> int | None:
    if partition is not None and partition < 0:
        raise ConfigError(f"the column partition has {partition}; it must be 0 or more, or null for any")
    return partition

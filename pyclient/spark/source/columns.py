"""The columns of the source, all or some of those of Spark's ``kafka``, and their form in Arrow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pyclient.errors import ConfigError
from pyclient.spark.api import arrow_schema
from pyclient.spark.options import Given, Use, read
from pyclient.spark.source.avro_values import AvroValues, fields_of
from pyclient.spark.source.json_values import JsonValues
from pyclient.spark.source.source_options import SourceOptions
from pyclient.spark.source.typed_values import TypedValues
from pyclient.topic_partition import TopicPartition

_HEADERS: Final = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
_TYPES: Final[Mapping[str, DataType]] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": _HEADERS,
}
_NAMES: Final = {name.lower(): name for name in _TYPES}
_TEXTS: Final = ("key", "value")
"""The columns that may be strings as well."""


class Columns(NamedTuple):
    """The columns that a query reads. Can be pickled."""

    spark: pa.Schema
    """The schema that Spark gets."""
    client: pa.Schema
    """The columns by the client's names. Values with a format are bytes there, and offsets are always included."""
    values: TypedValues | None

    def of(self, batch: pa.RecordBatch, tp: TopicPartition) -> pa.RecordBatch:
        """Returns the client's batch as Spark wants it. Copies only values with a format."""
        columns = batch.columns[: len(self.spark)]
        if self.values is not None:
            place, offsets = batch.schema.get_field_index("value"), batch.column("offset")
            columns[place] = self.values.of(columns[place], lambda row: f"offset {offsets[row]} of {tp}")
        return pa.RecordBatch.from_arrays(columns, schema=self.spark)


def source_schema(options: Mapping[str, str]) -> StructType | str:
    """Returns the schema of a source with these options. Raises ConfigError for options that a source does not have."""
    given = read(options, Use.READ)
    names = [name for name in _TYPES if name != "headers" or given["includeHeaders"]]
    if given["valueFormat"] == "binary":
        return StructType([StructField(name, _TYPES[name]) for name in names])
    value = f"struct<{_fields(given)}>"  # Spark parses it, because there is no JVM here
    return ", ".join(f"{name} {value if name == 'value' else _TYPES[name].simpleString()}" for name in names)


def _fields(given: Given) -> str:
    text: str | None = given["valueSchema"]
    if text is None:
        raise ConfigError("valueSchema is missing: valueFormat needs it, or schema(…) with a struct for 'value'")
    return fields_of(text) if given["valueFormat"] == "avro" else text


def columns_of(schema: StructType, options: SourceOptions) -> Columns:
    """Returns the columns of a schema, which may be the user's own. Raises ConfigError for a column that the source
    lacks.
    """
    is_typed = options.value_format != "binary" and "value" in (name.lower() for name in schema.names)
    for field in schema.fields:
        _check(field, is_typed)
    spark = arrow_schema(schema)
    client = [pa.field(_of_client(field.name), _raw(field, is_typed)) for field in spark]
    if not is_typed:
        return Columns(spark, pa.schema(client), None)
    if "offset" not in (field.name for field in client):
        client.append(pa.field("offset", pa.int64()))
    (kind,) = (field.type for field in spark if field.name.lower() == "value")
    return Columns(spark, pa.schema(client), _typed_values(kind, options))


def _typed_values(kind: pa.StructType, options: SourceOptions) -> TypedValues:
    fails, number = options.value_errors == "fail", options.value_schema_id
    if options.value_format == "json":
        return TypedValues(JsonValues(kind), options.value_prefix, number, fails)
    if options.value_schema is None:
        raise ConfigError("valueSchema is missing: valueFormat=avro needs the schema in JSON")
    return TypedValues(AvroValues(kind, options.value_schema), options.value_prefix, number, fails)


def _of_client(name: str) -> str:
    return "timestamp_type" if name.lower() == "timestamptype" else name.lower()


def _raw(field: pa.Field, is_typed: bool) -> Any:
    return pa.binary() if field.name.lower() == "value" and is_typed else field.type


def _check(field: StructField, is_typed: bool) -> None:
    name = _NAMES.get(field.name.lower())
    if name is None:
        raise ConfigError(f"there is no column {field.name!r}; there are {', '.join(_TYPES)}")
    if name == "value" and is_typed:
        if not isinstance(field.dataType, StructType):
            raise ConfigError(f"with a valueFormat the column 'value' is a struct, not {field.dataType.simpleString()}")
        _check_nullable(field.dataType)
        return
    is_text = name in _TEXTS and isinstance(field.dataType, StringType)
    if field.dataType.simpleString() != _TYPES[name].simpleString() and not is_text:
        right = _TYPES[name].simpleString() + (" or string" if name in _TEXTS else "")
        raise ConfigError(f"the column {name!r} is {right}, not {field.dataType.simpleString()}")


def _check_nullable(kind: StructType) -> None:
    """Raises ConfigError if a field is NOT NULL, because a value may lack any field."""
    for field in kind.fields:
        if not field.nullable:
            raise ConfigError(f"the field {field.name!r} of 'value' is NOT NULL: a value may lack any field")
        if isinstance(field.dataType, StructType):
            _check_nullable(field.dataType)

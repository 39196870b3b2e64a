"""The columns of the source: those of Spark's ``kafka``, or some of them, and how they lie in Arrow."""

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
from pyclient.spark.options import Use, read

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
"""These may be strings as well."""


class Columns(NamedTuple):
    """What a query reads. Can be pickled."""

    spark: pa.Schema
    """As Spark wants them."""
    client: pa.Schema
    """As the client calls them; a value with a format is bytes there."""

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """What the client gave, as Spark wants it; nothing is copied."""
        return pa.RecordBatch.from_arrays(batch.columns, schema=self.spark)


def source_schema(options: Mapping[str, str]) -> StructType | str:
    """What a source of these options gives. Raises ConfigError for options that no source has."""
    given = read(options, Use.READ)
    names = [name for name in _TYPES if name != "headers" or given["includeHeaders"]]
    return StructType([StructField(name, _TYPES[name]) for name in names])


def columns_of(schema: StructType, value_format: str) -> Columns:
    """The columns of a schema, which a user may have given. Raises ConfigError for one that the source has not."""
    for field in schema.fields:
        _check(field, value_format)
    spark = arrow_schema(schema)
    client = [pa.field(_of_client(field.name), _raw(field, value_format)) for field in spark]
    return Columns(spark, pa.schema(client))


def _of_client(name: str) -> str:
    return "timestamp_type" if name.lower() == "timestamptype" else name.lower()


def _raw(field: pa.Field, value_format: str) -> Any:
    return pa.binary() if field.name.lower() == "value" and value_format != "binary" else field.type


def _check(field: StructField, value_format: str) -> None:
    name = _NAMES.get(field.name.lower())
    if name is None:
        raise ConfigError(f"there is no column {field.name!r}; there are {', '.join(_TYPES)}")
    if name == "value" and value_format != "binary":
        if not isinstance(field.dataType, StructType):
            raise ConfigError(f"with valueFormat={value_format} the column 'value' is a struct")
        return
    is_text = name in _TEXTS and isinstance(field.dataType, StringType)
    if field.dataType.simpleString() != _TYPES[name].simpleString() and not is_text:
        right = _TYPES[name].simpleString() + (" or string" if name in _TEXTS else "")
        raise ConfigError(f"the column {name!r} is {right}, not {field.dataType.simpleString()}")

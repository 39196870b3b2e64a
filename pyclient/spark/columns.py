"""The columns of the source: those of Spark's ``kafka``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pyclient.spark.options import Use, read

_HEADERS: Final = StructField(
    "headers",
    ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
)
COLUMNS: Final = (
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp", TimestampType()),
    StructField("timestampType", IntegerType()),
)


def source_schema(options: Mapping[str, str]) -> StructType:
    """What a source of these options gives. Raises ConfigError for options that no source has."""
    given = read(options, Use.READ)
    return StructType([*COLUMNS, _HEADERS] if given["includeHeaders"] else list(COLUMNS))

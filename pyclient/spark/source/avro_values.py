"""Turns Avro records into a struct column, and an Avro schema into Spark's.

fastavro reads the records one by one and makes Python objects, because pyarrow cannot read Avro. The extra ``avro``
installs fastavro.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa

from pyclient.errors import ConfigError
from pyclient.spark.source.typed_values import Unreadable

_PLAIN: Final = {
    "boolean": "BOOLEAN", "int": "INT", "long": "BIGINT", "float": "FLOAT", "double": "DOUBLE",
    "bytes": "BINARY", "fixed": "BINARY", "string": "STRING", "enum": "STRING",
}
_LOGICAL: Final = {
    "date": "DATE", "timestamp-millis": "TIMESTAMP", "timestamp-micros": "TIMESTAMP", "uuid": "STRING",
    "local-timestamp-millis": "TIMESTAMP_NTZ", "local-timestamp-micros": "TIMESTAMP_NTZ",
}


class AvroValues:
    """Decodes Avro values of one schema and type. Can be pickled."""

    def __init__(self, kind: pa.StructType, schema: str) -> None:
        self._kind = kind
        self._schema = parsed(schema)

    def of(self, values: pa.BinaryArray) -> pa.StructArray:
        """Returns a struct for each value, null for a null value. Raises Unreadable with the rows that are wrong."""
        rows = [self._read(value) for value in values.to_pylist()]
        faults = [isinstance(row, _Fault) for row in rows]
        if True in faults:
            raise Unreadable(pa.array(faults), rows[faults.index(True)].why)
        return pa.array(rows, self._kind)

    def _read(self, value: bytes | None) -> Any:
        """Returns the record, or a fault."""
        from fastavro import schemaless_reader

        if value is None:
            return None
        stream = io.BytesIO(value)
        try:
            found = schemaless_reader(stream, self._schema, None)
        except Exception as error:  # fastavro passes on what struct, codecs, dicts … raise
            return _Fault(f"it is not an Avro record of this schema: {error!r}")
        if stream.tell() != len(value):
            return _Fault(f"{len(value) - stream.tell()} bytes lie behind its Avro record")
        return found


class _Fault(NamedTuple):
    """Takes the place of a record that could not be read."""

    why: str


def parsed(text: str) -> Any:
    """Returns the schema, which must be a record. Raises ConfigError."""
    try:
        from fastavro import parse_schema
    except ImportError:
        raise ConfigError("valueFormat=avro needs fastavro: pip install fastavro") from None
    try:
        schema = json.loads(text)
        if not isinstance(schema, dict) or schema.get("type") != "record":
            raise ValueError("it is no record")
        return parse_schema(schema)
    except Exception as error:
        raise ConfigError(f"valueSchema is not an Avro schema: {error}") from error


def fields_of(text: str) -> str:
    """Returns the fields in Spark's DDL. Raises ConfigError."""
    parsed(text)
    return _fields(json.loads(text), {})


def _fields(record: Mapping[str, Any], named: dict[str, Any]) -> str:
    return ", ".join(f"`{field['name']}` {_type(field['type'], named)}" for field in record["fields"])


def _type(kind: Any, named: dict[str, Any]) -> str:
    if isinstance(kind, list):
        others = [each for each in kind if each != "null"]
        if len(others) != 1:
            raise ConfigError(f"valueSchema: a column cannot have several types: {json.dumps(kind)}")
        return _type(others[0], named)
    if isinstance(kind, str):
        return _PLAIN[kind] if kind in _PLAIN else _type(named.get(kind, {}), named)
    if "name" in kind:
        named[kind["name"]] = kind
    return _compound(kind, named)


def _compound(kind: Mapping[str, Any], named: dict[str, Any]) -> str:
    what, logical = kind.get("type"), kind.get("logicalType")
    if logical == "decimal":
        return f"DECIMAL({kind['precision']}, {kind.get('scale', 0)})"
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    if what == "record":
        return f"STRUCT<{_fields(kind, named)}>"
    if what == "array":
        return f"ARRAY<{_type(kind['items'], named)}>"
    if isinstance(what, str) and what in _PLAIN:
        return _PLAIN[what]
    raise ConfigError(f"valueSchema: there is no column for {json.dumps(kind)}")

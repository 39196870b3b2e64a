"""Consumed records as a ``pyarrow.RecordBatch``. pyarrow is the extra ``arrow``."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from cy.fetched import Chunk
from cy.record_columns import Strings, columns
from pyclient.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped,unused-ignore]


@cache
def _arrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise ConfigError("poll_arrow needs pyarrow: pip install pybroker[arrow]") from None
    return pyarrow


@cache
def schema() -> pyarrow.Schema:
    """topic, partition, offset, timestamp (UTC, ms), key, value, headers (a list of key and value)."""
    pa = _arrow()
    header = pa.struct([pa.field("key", pa.string(), False), pa.field("value", pa.binary())])
    return pa.schema(
        [
            pa.field("topic", pa.string(), False),
            pa.field("partition", pa.int32(), False),
            pa.field("offset", pa.int64(), False),
            pa.field("timestamp", pa.timestamp("ms", "UTC"), False),
            pa.field("key", pa.binary()),
            pa.field("value", pa.binary()),
            pa.field("headers", pa.list_(pa.field("item", header, False)), False),
        ]
    )


def record_batch(chunks: list[Chunk]) -> pyarrow.RecordBatch:
    """The records of the chunks, without copying what is in their columns again."""
    pa = _arrow()
    parts = columns(chunks, pa.allocate_buffer)  # of Arrow's memory pool, which keeps its pages
    types = {field.name: field.type for field in schema()}
    headers = types["headers"]
    pairs = pa.StructArray.from_arrays(
        [_strings(pa.string(), parts.header_key), _strings(pa.binary(), parts.header_value)],
        fields=list(headers.value_type),
    )
    arrays = [
        _strings(pa.string(), parts.topic),
        _fixed(types["partition"], parts.rows, parts.partition),
        _fixed(types["offset"], parts.rows, parts.offset),
        _fixed(types["timestamp"], parts.rows, parts.timestamp),
        _strings(pa.binary(), parts.key),
        _strings(pa.binary(), parts.value),
        pa.Array.from_buffers(headers, parts.rows, [None, parts.header_offsets], children=[pairs]),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema())


def _fixed(kind: Any, count: int, data: Any) -> Any:
    pa = _arrow()
    return pa.Array.from_buffers(kind, count, [None, data])


def _strings(kind: Any, column: Strings) -> Any:
    pa = _arrow()
    return pa.Array.from_buffers(kind, column.rows, [column.validity, column.offsets, column.data])

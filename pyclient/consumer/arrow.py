"""Consumed records as a ``pyarrow.RecordBatch``. pyarrow comes with the extra ``arrow``."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from cy.consume.fetched import Chunk
from cy.consume.record_columns import Columns, Strings, columns
from pyclient.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped,unused-ignore]

MOST_BYTES: Final = 256 << 20
"""The most bytes of records in one batch, unless it is a single record. An Arrow column has at most 2 GiB."""
MOST_ROWS: Final = ((1 << 31) - 1) // 249
"""The most rows of a batch, because a column holds at most so many topic names."""
PER_MS: Final = {"ms": 1, "us": 1000, "ns": 1_000_000}
"""The number of units in a millisecond, for each unit that a timestamp column may have."""


@cache
def _arrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise ConfigError("poll_arrow needs pyarrow: pip install pyarrow") from None
    return pyarrow


@cache
def schema() -> pyarrow.Schema:
    """Returns the default schema: topic, partition, offset, timestamp (UTC, ms), key, value, headers (list of pairs).
    """
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


def record_batch(chunks: list[Chunk], wanted: pyarrow.Schema | None = None) -> pyarrow.RecordBatch:
    """Returns the records of the chunks, without copying their columns a second time.

    ``wanted`` chooses columns of ``schema`` and ``timestamp_type`` (int32; 1 is LogAppendTime), in its order. A
    timestamp may be in ms, us or ns. A key or value may be a string; its bytes are not checked. If headers may be null,
    they are null for a record without headers.
    """
    pa = _arrow()
    wanted = schema() if wanted is None else wanted
    unit = wanted.field("timestamp").type.unit if "timestamp" in wanted.names else "ms"
    # from Arrow's memory pool, which keeps its pages
    parts = columns(chunks, pa.allocate_buffer, frozenset(wanted.names), PER_MS[unit])
    return pa.RecordBatch.from_arrays([_array(field, parts) for field in wanted], schema=wanted)


def _array(field: Any, parts: Columns) -> Any:
    if field.name == "headers":
        return _headers(field, parts)
    column = getattr(parts, field.name)
    if isinstance(column, Strings):
        return _strings(field.type, column)
    return _arrow().Array.from_buffers(field.type, parts.rows, [None, column])


def _headers(field: Any, parts: Columns) -> Any:
    pa = _arrow()
    keys, values = parts.header_key, parts.header_value
    assert keys is not None
    assert values is not None
    kind = field.type
    pairs = pa.StructArray.from_arrays([_names(keys), _strings(pa.binary(), values)], fields=list(kind.value_type))
    there = _there(parts) if field.nullable else None
    return pa.Array.from_buffers(kind, parts.rows, [there, parts.header_offsets], children=[pairs])


def _names(column: Strings) -> Any:
    """Returns the names of headers. Bytes that are not UTF-8 are replaced, as in ``Record.headers``."""
    pa = _arrow()
    names = _strings(pa.string(), column)
    try:
        names.validate(full=True)
    except pa.ArrowInvalid:
        replaced = [name.decode(errors="replace") for name in _strings(pa.binary(), column).to_pylist()]
        return pa.array(replaced, pa.string())
    return names


def _there(parts: Columns) -> Any:
    """Returns the validity bitmap: which records have headers."""
    from pyarrow.compute import not_equal

    pa = _arrow()
    offsets = pa.Array.from_buffers(pa.int32(), parts.rows + 1, [None, parts.header_offsets])
    return not_equal(offsets[1:], offsets[:-1]).buffers()[1]


def _strings(kind: Any, column: Strings) -> Any:
    return _arrow().Array.from_buffers(kind, column.rows, [column.validity, column.offsets, column.data])

"""Turns JSON objects into a struct column. ``cy.consume.json_lines`` makes lines of their bytes, and ``pyarrow.json``
reads these into Arrow. No Python object is made per row.

Fields that the schema lacks are skipped; fields that a value lacks are null. A number is never read as a string, or a
string as a number. Times are ISO 8601 strings.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as reader

from cy.consume.json_lines import join_objects
from pyclient.errors import ConfigError
from pyclient.spark.source.typed_values import Unreadable


class JsonValues:
    """Decodes JSON values of one type. Can be pickled."""

    def __init__(self, kind: pa.StructType) -> None:
        self._kind = kind
        self._read = pa.schema([field.with_type(_readable(field.type)) for field in kind])

    def of(self, values: pa.BinaryArray) -> pa.StructArray:
        """Returns a struct for each value, null for a null value. Raises Unreadable with the rows whose structure is
        wrong. Raises ArrowInvalid if a field does not have its type, or a string is not UTF-8.
        """
        values = pa.concat_arrays([values]) if values.offset else values
        validity, offsets, data = values.buffers()
        lines, size, wrong = join_objects(len(values), validity, offsets, data, pa.allocate_buffer)
        bad = pa.BooleanArray.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(wrong)])
        if bad.true_count:
            raise Unreadable(bad, "it is not a JSON object")
        if not len(values):
            return pa.array([], self._kind)
        table = reader.read_json(
            pa.BufferReader(pa.py_buffer(lines).slice(0, size)),
            reader.ReadOptions(use_threads=False, block_size=size + 1),
            reader.ParseOptions(explicit_schema=self._read, unexpected_field_behavior="ignore"),
        )
        columns = [column.combine_chunks().cast(field.type) for column, field in zip(table, self._kind, strict=True)]
        found = pa.StructArray.from_arrays(columns, fields=list(self._kind), mask=pc.is_null(values))
        found.validate(full=True)  # the reader accepts any bytes as a string
        return found


def _readable(kind: Any) -> Any:
    """Returns the type that the reader makes first, because it cannot read dates."""
    if pa.types.is_date32(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_readable(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_readable(kind.value_type)))
    if pa.types.is_map(kind):
        raise ConfigError("valueFormat=json does not support MAP: use a STRUCT with named fields")
    return kind

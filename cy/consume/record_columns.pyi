from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from cy.consume.fetched import Chunk

class Strings(NamedTuple):
    """A column of strings or bytes in Arrow's layout: validity bits (None if none is null), int32 offsets, bytes.

    All are buffers.
    """

    rows: int
    validity: Any
    offsets: Any
    data: Any

class Columns(NamedTuple):
    """Records as Arrow buffers. A column that is not wanted is None."""

    rows: int
    topic: Strings | None
    partition: Any
    offset: Any
    timestamp: Any
    timestamp_type: Any
    """int32: 0 the producer's time, 1 the broker's (LogAppendTime)."""
    key: Strings | None
    value: Strings | None
    header_offsets: Any
    header_key: Strings | None
    header_value: Strings | None

NAMES: frozenset[str]
"""Of the columns; ``headers`` are three of the buffers."""

def columns(
    chunks: list[Chunk],
    allocate: Callable[[int], Any] = ...,
    wanted: Collection[str] = ...,
    per_ms: int = 1,
) -> Columns:
    """The records as columns, in buffers of ``allocate`` (by size; bytearrays), which may be longer than they need be; made without the GIL and without an object per record. Only those ``wanted`` (all); timestamps count
    ``per_ms`` units in a millisecond.

    ``OverflowError`` where keys or values are 2 GiB together, more than 32-bit offsets can say.
    """

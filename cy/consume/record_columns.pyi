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
"""The names of all columns."""

def columns(
    chunks: list[Chunk],
    allocate: Callable[[int], Any] = ...,
    wanted: Collection[str] = ...,
    per_ms: int = 1,
) -> Columns:
    """Returns the ``wanted`` columns of the records (default: all). ``allocate(size)`` makes the buffers (default:
    bytearrays), which may be longer than necessary. Timestamps are in units of which ``per_ms`` make a millisecond.
    Releases the GIL and makes no object per record.

    Raises ``OverflowError`` if all keys or all values together reach 2 GiB, which 32-bit offsets cannot express.
    """

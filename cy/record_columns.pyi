from collections.abc import Callable
from typing import Any, NamedTuple

from cy.fetched import Chunk

class Strings(NamedTuple):
    """A column of strings or bytes as Arrow lays it out: a bit per value (None where none is null), where each begins
    (int32), the bytes. All are buffers.
    """

    rows: int
    validity: Any
    offsets: Any
    data: Any

class Columns(NamedTuple):
    """Records as Arrow buffers."""

    rows: int
    topic: Strings
    partition: Any
    offset: Any
    timestamp: Any
    key: Strings
    value: Strings
    header_offsets: Any
    header_key: Strings
    header_value: Strings

def columns(chunks: list[Chunk], allocate: Callable[[int], Any] = ...) -> Columns:
    """The records as columns, in buffers of ``allocate`` (by size; bytearrays), which may be longer than they need be; made without the GIL and without an object per record.

    ``OverflowError`` where keys or values are 2 GiB together, more than 32-bit offsets can say.
    """

from typing import NamedTuple

from cy.fetched import Chunk

class Strings(NamedTuple):
    """A column of strings or bytes as Arrow lays it out: a bit per value (None where none is null), where each begins
    (int32), the bytes.
    """

    rows: int
    validity: bytes | None
    offsets: bytes
    data: bytes

class Columns(NamedTuple):
    """Records as Arrow buffers."""

    rows: int
    topic: Strings
    partition: bytes
    offset: bytes
    timestamp: bytes
    key: Strings
    value: Strings
    header_offsets: bytes
    header_key: Strings
    header_value: Strings

def columns(chunks: list[Chunk]) -> Columns:
    """The records as columns; made without the GIL and without an object per record.

    ``OverflowError`` where keys or values are 2 GiB together, more than 32-bit offsets can say.
    """

from collections.abc import Iterator
from typing import final

from cy.batch.header import Batch

@final
class Record:
    """One record. In LogAppendTime batches, ``timestamp`` is the broker's time."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]

def records_of(whole: memoryview, batch: Batch, max_output: int | None) -> Iterator[Record]:
    """Yields the records of the v2 batch ``whole``. Limits and errors are those of ``batch.iterate``."""

def find_since(
    whole: memoryview, batch: Batch, timestamp: int, offset: int, max_record: int
) -> tuple[int, int] | None:
    """Returns timestamp and offset of the first record that is not older than ``timestamp`` and not before ``offset``,
    or None. Up to there, no record of a compressed batch may be larger than ``max_record`` bytes.
    """

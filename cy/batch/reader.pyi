from collections.abc import Iterator
from typing import final

from cy.batch.header import Batch

@final
class Record:
    """One record; for LogAppendTime batches ``timestamp`` is the broker's."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]

def records_of(whole: memoryview, batch: Batch, max_output: int | None) -> Iterator[Record]:
    """The records of one v2 batch; ``whole`` is exactly its bytes. Bounds and errors as for ``batch.iterate``."""

def find_since(
    whole: memoryview, batch: Batch, timestamp: int, offset: int, max_output: int | None
) -> tuple[int, int] | None:
    """Timestamp and offset of the first record of one v2 batch that is as new and at or beyond ``offset``; as ``records_of``."""

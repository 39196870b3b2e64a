from typing import final

from typing_extensions import Buffer

from cy.batch.aborted_transactions import AbortedTransactions
from cy.compaction.offset_map import OffsetMap

@final
class KeyScanner:
    """Takes the keys of records at or beyond offset ``first`` into ``map``; aborted records count for nothing."""

    latest: int
    """The last offset up to which every record is in the map; ``first - 1`` at the start."""
    records: int
    is_full: bool
    """Whether the map is full, so that scanning has ended."""
    def __init__(self, map: OffsetMap, transactions: AbortedTransactions, first: int) -> None: ...
    def scan(self, data: Buffer) -> None:
        """Reads whole v2 batches. ``CorruptBatch``, ``InvalidBatch``, ``UnknownCodec``, ``MemoryError``."""
    def skip_to(self, offset: int) -> None:
        """There is no record left below ``offset`` (a gap, or a segment's end)."""

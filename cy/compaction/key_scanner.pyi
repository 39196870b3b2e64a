from typing import final

from typing_extensions import Buffer

from cy.batch.aborted_transactions import AbortedTransactions
from cy.compaction.offset_map import OffsetMap

@final
class KeyScanner:
    """Adds the keys of records at or beyond offset ``first`` to ``map``; ignores aborted records.

    No record of a compressed batch may be larger than ``max_record`` bytes.
    """

    latest: int
    """The last offset up to which every record is in the map; ``first - 1`` at the start."""
    records: int
    is_full: bool
    """True if scanning has ended because the map is full."""
    def __init__(self, map: OffsetMap, transactions: AbortedTransactions, first: int, max_record: int = ...) -> None: ...
    def scan(self, data: Buffer) -> None:
        """Reads whole v2 batches. Raises ``CorruptBatch``, ``InvalidBatch``, ``UnknownCodec``, ``MemoryError``."""
    def skip_to(self, offset: int) -> None:
        """Notes at a gap, or at a segment's end, that everything below ``offset`` has been read."""

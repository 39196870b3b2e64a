from typing import final

from typing_extensions import Buffer

from cy.batch.aborted_transactions import AbortedTransactions
from cy.int64_map import Int64Map
from cy.compaction.offset_map import OffsetMap

@final
class BatchFilter(Buffer):
    """Collects what compaction leaves of batches; a buffer of its output.

    ``last_offsets``: producer id → last offset of its last data batch, or -2 - epoch where it has written none in its
    epoch. ``latest``: the last offset that the map covers. Times are milliseconds.
    """

    records_read: int
    records_kept: int
    def __init__(
        self,
        map: OffsetMap,
        transactions: AbortedTransactions,
        last_offsets: Int64Map,
        *,
        latest: int,
        now_ms: int,
        delete_retention_ms: int,
    ) -> None: ...
    def __len__(self) -> int:
        """Bytes of output."""
    def set_last_offsets(self, last_offsets: Int64Map) -> None:
        """The state of the producers seen so far."""
    def filter(self, data: Buffer, is_end: bool) -> None:
        """Adds what stays of ``data``, whole v2 batches. ``is_end``: the last of them stays, be it without records.

        Raises ``CorruptBatch``, ``InvalidBatch``, ``UnknownCodec``, ``MemoryError``; ``BufferError`` while the output
        is in use.
        """
    def clear(self) -> None:
        """Empties the output; ``BufferError`` while it is in use."""

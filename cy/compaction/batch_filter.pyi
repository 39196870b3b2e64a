from typing import final

from typing_extensions import Buffer

from cy.batch.aborted_transactions import AbortedTransactions
from cy.int64_map import Int64Map
from cy.compaction.offset_map import OffsetMap

@final
class BatchFilter(Buffer):
    """Filters batches. As a buffer, it has the batches and records that stay.

    ``last_offsets`` maps a producer id to the last offset of its last data batch. If the producer has written none in
    its epoch, the value is -2 - epoch. ``latest`` is the last offset that the map covers. Times are milliseconds.
    No record of a compressed batch may be larger than ``max_record`` bytes.
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
        max_record: int = ...,
    ) -> None: ...
    def __len__(self) -> int:
        """The bytes of output."""
    def set_last_offsets(self, last_offsets: Int64Map) -> None:
        """Replaces ``last_offsets``, because the producers have continued."""
    def filter(self, data: Buffer, is_end: bool) -> None:
        """Adds what stays of ``data``, which consists of whole v2 batches. With ``is_end``, the last batch stays, even
        without records.

        Raises ``CorruptBatch``, ``InvalidBatch``, ``UnknownCodec``, ``MemoryError``, and ``BufferError`` while the
        output is in use.
        """
    def clear(self) -> None:
        """Empties the output. Raises ``BufferError`` while it is in use."""

from typing import final

from typing_extensions import Buffer

@final
class SegmentIndexer:
    """Builds the indexes of the segment at ``base_offset``, with an entry about every ``interval`` bytes."""

    max_timestamp: int
    size: int
    """The size in bytes of the batches so far."""
    last_offset: int
    def __init__(self, base_offset: int, interval: int) -> None: ...
    def add(self, data: Buffer) -> None:
        """Adds the next whole v2 batches. Raises ``CorruptBatch`` if offsets do not ascend, or do not fit into an
        index.
        """
    def finish(self) -> tuple[bytes, bytes]:
        """Returns the content of ``.index`` and ``.timeindex``. Call it after the last batch."""

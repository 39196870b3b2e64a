from typing import final

from typing_extensions import Buffer

@final
class SegmentIndexer:
    """Makes the indexes of the segment at ``base_offset``, with an entry about every ``interval`` bytes."""

    max_timestamp: int
    size: int
    """Bytes taken so far."""
    last_offset: int
    def __init__(self, base_offset: int, interval: int) -> None: ...
    def add(self, data: Buffer) -> None:
        """Takes whole v2 batches that follow those before. ``CorruptBatch`` where offsets do not ascend or fit."""
    def finish(self) -> tuple[bytes, bytes]:
        """The content of ``.index`` and ``.timeindex``: no batch follows."""

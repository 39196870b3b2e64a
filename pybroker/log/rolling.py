"""Decides when the active segment rolls, which seals it and starts a new one.

A segment rolls by size (``segment.bytes``), and by time between the first batch's timestamp and the new one's
(``segment.ms``). A jitter spreads the rolls of logs that began together; in a compacted log the time is at most
``max.compaction.lag.ms``. A segment also rolls when an index is full (``segment.index.bytes``), or when an offset would
not fit into the 32 bits of an index entry. Without timestamps, the time since the creation of the segment counts.
"""

from __future__ import annotations

from cy.crc32c import crc32c
from pybroker.config.log_config import LogConfig
from pybroker.log.files.offset_index import MAX_RELATIVE_OFFSET
from pybroker.log.segment.segment import Segment


class Rolling:
    """The limits of one active segment."""

    __slots__ = ("_roll_ms", "_segment_bytes")

    def __init__(self, config: LogConfig, segment: Segment, log_name: str) -> None:
        segment.index_interval_bytes = config.index_interval_bytes
        segment.max_index_bytes = config.segment_index_bytes
        if not segment.size:
            segment.index_is_full = segment.is_full_with(0, 0)
        segment_ms = config.segment_ms
        if config.is_compacted:
            segment_ms = min(segment_ms, config.max_compaction_lag_ms)
        jitter = 0
        if config.segment_jitter_ms > 0:
            seed = crc32c(f"{log_name}/{segment.base_offset}".encode())
            jitter = min(seed % config.segment_jitter_ms, segment_ms)
        self._roll_ms = segment_ms - jitter
        self._segment_bytes = config.segment_bytes

    def is_due(self, segment: Segment, length: int, last_offset: int, timestamp: int, now_ms: int) -> bool:
        """Returns True if a batch of ``length`` bytes with this last offset and timestamp needs a new segment.

        An empty segment takes everything whose offsets fit into its indexes. Raises OSError, MalformedBatch.
        """
        if not segment.size:
            return last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
        if segment.size + length > self._segment_bytes:
            return True
        first = segment.first_timestamp
        has_times = first >= 0 and timestamp >= 0
        waited_ms = timestamp - first if has_times else now_ms - segment.created_ms
        if waited_ms > self._roll_ms or segment.index_is_full:
            return True
        return last_offset - segment.base_offset > MAX_RELATIVE_OFFSET

"""One compaction of one log: reads the keys of its dirty part into a map, then rewrites its segments.

First ``read_keys`` puts each key's last offset in the dirty part into an offset map of a given size. If the map gets
full, this compaction covers only the dirty part that has been read by then.

Then ``rewrite`` rewrites each run of segments, from the log start to the end of the part that the map covers. It
drops records that have a successor in the map. ``cy.compaction.batch_filter`` decides about the records of a batch,
``cy.batch.aborted_transactions`` about transactions.

It works on bytes without an object per record, and releases the GIL except in the codecs' wrappers. It needs memory for
the map, and for a few buffers of a read's size or of the largest batch.

Thread-safety: one pool thread. It reads sealed segments through files of its own. The log's producers, which only the
loop's thread may read, are arguments.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from cy.batch import CorruptBatch
from cy.batch.aborted_transactions import AbortedTransactions
from cy.batch.legacy import up_convert
from cy.batch.whole_batches import measure
from cy.compaction.batch_filter import BatchFilter
from cy.compaction.key_scanner import KeyScanner
from cy.compaction.offset_map import ENTRY_BYTES, OffsetMap
from cy.int64_map import Int64Map
from pybroker.log.compaction.cleanable import Cleanable
from pybroker.log.compaction.throttle import Throttle
from pybroker.log.files.storage import DataFile
from pybroker.log.interruption import Interruption
from pybroker.log.producers.producer_entry import NO_OFFSET, ProducerEntry
from pybroker.log.segment.cleaned_segment import CleanedSegment
from pybroker.log.segment.segment import Segment

SECRET_BYTES = 16
LEAST_MAP_BYTES = 1 << 16


class MapTooSmall(ValueError):
    """Raised if the keys of a single batch do not fit into the offset map, so that compaction cannot progress."""


@dataclass(frozen=True, slots=True)
class Resources:
    """How much memory one thread's compaction may use, in bytes (``log.cleaner.*``)."""

    map_bytes: int = 134_217_728
    load_factor: float = 0.9
    read_bytes: int = 262_144


@dataclass(slots=True)
class Stats:
    """What a compaction did, for the log line."""

    read_bytes: int = 0
    written_bytes: int = 0
    read_records: int = 0
    kept_records: int = 0
    keys: int = 0


class Compaction:
    """Compacts the log of ``todo``. ``aborted`` has the ``.txnindex`` entries of the whole log.

    Every method may raise OSError, Interrupted, cy.batch.CorruptBatch and InvalidBatch.
    """

    def __init__(
        self,
        todo: Cleanable,
        resources: Resources,
        throttle: Throttle,
        interruption: Interruption,
        *,
        aborted: bytes,
        now_ms: int,
    ) -> None:
        self._todo = todo
        self._storage = todo.log.log_dir.storage
        self._resources = resources
        self._throttle = throttle
        self._interruption = interruption
        self._aborted = aborted
        self._now_ms = now_ms
        self._max_record = todo.log.config.max_decompressed_message_bytes
        self.stats = Stats()
        self._map: OffsetMap | None = None
        self._filter: BatchFilter | None = None
        self._latest = todo.first_dirty - 1

    @property
    def end(self) -> int:
        """The offset below which the log is clean after the compaction."""
        return self._latest + 1

    # Keys

    def read_keys(self) -> None:
        """Fills the offset map from the dirty part. Raises MapTooSmall, MemoryError."""
        todo = self._todo
        self._map = OffsetMap(self._map_bytes(), self._resources.load_factor, os.urandom(SECRET_BYTES))
        scanner = KeyScanner(self._map, AbortedTransactions(self._aborted), todo.first_dirty, self._max_record)
        self._scan(scanner)
        self.stats.keys = len(self._map)
        if scanner.latest < todo.first_dirty:
            raise MapTooSmall(
                f"the batch at offset {todo.first_dirty} has more keys than fit into the offset map: {self._map.limit}"
            )
        self._latest = scanner.latest
        self._transactions = AbortedTransactions(self._aborted)
        self._filter = BatchFilter(
            self._map,
            self._transactions,
            Int64Map(),
            latest=self._latest,
            now_ms=self._now_ms,
            delete_retention_ms=todo.log.config.delete_retention_ms,
            max_record=self._max_record,
        )

    def _scan(self, scanner: KeyScanner) -> None:
        todo = self._todo
        for segment, end in zip(todo.segments, _ends(todo), strict=True):
            if end <= todo.first_dirty:
                continue
            for data, _ in self._pieces(segment):
                scanner.scan(data)
                if scanner.is_full:
                    return
            scanner.skip_to(end)

    def _map_bytes(self) -> int:
        """Returns the size of the offset map: the configured one, or less if the dirty part has few offsets."""
        offsets = self._todo.first_uncleanable - self._todo.first_dirty
        needed = int((offsets + 2) / self._resources.load_factor) * ENTRY_BYTES + LEAST_MAP_BYTES
        return max(LEAST_MAP_BYTES, min(self._resources.map_bytes, needed))

    # Segments

    def rewrite(self, group: Sequence[Segment], producers: Iterable[ProducerEntry]) -> CleanedSegment:
        """Writes the remaining records of ``group`` into one new segment, which can be swapped in.

        ``producers`` are the log's current ones.
        """
        log = self._todo.log
        cleaned = CleanedSegment(
            self._storage, log.log_dir.cache, log.folder, group[0].base_offset, log.config.index_interval_bytes
        )
        try:
            assert self._filter is not None
            self._filter.set_last_offsets(last_offsets(producers))
            last = max((segment for segment in group if segment.size), key=_base_offset, default=None)
            for segment in group:
                self._rewrite(segment, cleaned, self._filter, is_last=segment is last)
            cleaned.finish(self._transactions.take_kept(), self._storage.modified_ms(group[-1].path))
        except BaseException:
            cleaned.remove()
            raise
        return cleaned

    def _rewrite(self, segment: Segment, cleaned: CleanedSegment, records: BatchFilter, *, is_last: bool) -> None:
        for data, is_end in self._pieces(segment):
            records.filter(data, is_last and is_end)
            if len(records):
                with memoryview(records) as output:
                    cleaned.write(output)
                self._pay(len(records))
                self.stats.written_bytes += len(records)
            records.clear()
        self.stats.read_records, self.stats.kept_records = records.records_read, records.records_kept

    # Reading

    def _pieces(self, segment: Segment) -> Iterator[tuple[bytes, bool]]:
        """Yields the batches of a segment in pieces of about a read's size, each with True if it is the last."""
        file, size = self._storage.open(segment.path), segment.size
        position, wanted = 0, self._resources.read_bytes
        while position < size:
            self._interruption.check()
            wanted = min(wanted, size - position)
            data = file.read(wanted, position)
            if len(data) < wanted:
                raise CorruptBatch(f"{file.path} ends before position {position + wanted}")
            end, cut_size, has_legacy = measure(data)
            if not end:
                wanted = _larger(file, position, size - position, wanted, cut_size)
                continue
            position += end
            wanted = self._resources.read_bytes
            self._pay(end)
            self.stats.read_bytes += end
            whole = data if end == len(data) else data[:end]
            yield (up_convert(whole) if has_legacy else whole), position >= size

    def _pay(self, used_bytes: int) -> None:
        delay = self._throttle.delay(used_bytes, time.monotonic())
        if delay > 0:
            self._interruption.wait(delay)


def last_offsets(producers: Iterable[ProducerEntry]) -> Int64Map:
    """Returns the last offset of each producer, or its epoch if it has none, in the form that ``BatchFilter`` needs."""
    return Int64Map(
        (entry.producer_id, entry.last_offset if entry.last_offset != NO_OFFSET else -2 - entry.epoch)
        for entry in producers
    )


def _larger(file: DataFile, position: int, left: int, read: int, batch_size: int) -> int:
    """Returns how many bytes to read to get one whole batch. Raises CorruptBatch if the file ends before."""
    if read >= left or batch_size > left:
        raise CorruptBatch(f"{file.path}: the batch at position {position} is cut by the end of the file")
    return max(batch_size, 2 * read)


def _base_offset(segment: Segment) -> int:
    return segment.base_offset


def _ends(todo: Cleanable) -> list[int]:
    """Returns for each segment where the next one begins."""
    return [*(segment.base_offset for segment in todo.segments[1:]), todo.first_uncleanable]

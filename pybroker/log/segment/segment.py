"""One segment of a log: ``<base offset, 20 digits>.log`` and its indexes.

Format: a sequence of record batches (``cy.batch``). Their offsets ascend, from the base offset to below
that of the next segment. Only the last segment of a log, the active one, grows.

Invariants: ``size`` counts whole batches only; what a failed write left beyond it is removed
before anything else happens. Nothing below ``size`` changes, except that ``truncate`` makes it
smaller.

``slicing`` reads for fetches.

**Finding an offset**: the offset index, then a scan of batch headers. A read usually continues where the
last one ended, so the ends of the last few reads are remembered (``_starts``). This also finds the high
watermark, since followers read up to it.

Thread-safety: loop's thread only, except ``sync``, which one pool thread at a time may call.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from cy.batch import Batch
from pybroker.log.files.batches import (
    Located,
    MalformedBatch,
    first_reaching,
    walk,
    walk_verified,
)
from pybroker.log.files.file_cache import FileCache
from pybroker.log.files.offset_index import MAX_POSITION, MAX_RELATIVE_OFFSET, OffsetPosition
from pybroker.log.files.storage import TEMPORARY_SUFFIX, Bytes, DataFile, Storage
from pybroker.log.files.time_index import TimestampEntry
from pybroker.log.segment.segment_files import SegmentFiles
from pybroker.log.segment.trust import Trust

UNKNOWN_TIMESTAMP = -2
NO_BATCH = -1
MAX_STARTS = 64

logger = logging.getLogger(__name__)


class Segment:
    """One segment. The log decides when it rolls."""

    __slots__ = (
        "_bytes_since_index",
        "_first_timestamp",
        "_max_timestamp",
        "_max_timestamp_offset",
        "_starts",
        "_was_rebuilt",
        "base_offset",
        "created_ms",
        "files",
        "index_interval_bytes",
        "index_is_full",
        "max_index_bytes",
        "offset_index",
        "size",
        "time_index",
        "trust",
        "txn_index",
    )

    def __init__(
        self,
        storage: Storage,
        cache: FileCache,
        folder: str,
        base_offset: int,
        size: int,
        created_ms: int,
    ) -> None:
        self.files = files = SegmentFiles(storage, cache, folder, base_offset)
        self.offset_index, self.time_index, self.txn_index = files.offset_index, files.time_index, files.txn_index
        self.trust = Trust(size)
        self.base_offset = base_offset
        self.size = size
        """The bytes of whole batches in the ``.log``."""
        self.created_ms = created_ms
        self.index_interval_bytes = 4096
        self.max_index_bytes = 10_485_760
        self.index_is_full = False
        """True if one more entry would exceed ``max_index_bytes``."""
        self._max_timestamp = UNKNOWN_TIMESTAMP
        self._max_timestamp_offset = base_offset
        self._first_timestamp = UNKNOWN_TIMESTAMP
        self._bytes_since_index = 0
        self._starts: dict[int, int] | None = None
        self._was_rebuilt = False

    @classmethod
    def create(cls, storage: Storage, cache: FileCache, folder: str, base_offset: int, now_ms: int) -> Segment:
        """Creates the files of a new, empty segment. Raises OSError."""
        segment = cls.unwritten(storage, cache, folder, base_offset, now_ms)
        segment.files.make()
        return segment

    @classmethod
    def unwritten(cls, storage: Storage, cache: FileCache, folder: str, base_offset: int, now_ms: int) -> Segment:
        """Returns a new, empty segment whose files are created when it is first used."""
        segment = cls(storage, cache, folder, base_offset, 0, now_ms)
        segment.files.is_made = False
        segment.start_indexes()
        return segment

    @classmethod
    def prepare(cls, storage: Storage, cache: FileCache, folder: str, base_offset: int, now_ms: int) -> Segment:
        """Creates a segment while another one may still have the file's name, until ``place``. Raises OSError."""
        segment = cls(storage, cache, folder, base_offset, 0, now_ms)
        segment.files.data = segment._begin(segment.path + TEMPORARY_SUFFIX)  # not in the cache, which might close it
        return segment

    def _begin(self, path: str) -> DataFile:
        self._max_timestamp = -1
        file = self.files.storage.open(path, create=True)
        file.truncate(0)
        self.offset_index.start_empty()
        self.time_index.start_empty()
        return file

    @property
    def path(self) -> str:
        """Path of the ``.log`` file."""
        return self.files.path

    @property
    def file(self) -> DataFile:
        """The open ``.log`` file."""
        files = self.files
        files.recently_used = True
        return files.data or self._open()

    def _open(self) -> DataFile:
        self._settle()
        return self.files.open()

    def _settle(self) -> None:
        """Trusts no bytes any longer if the file was closed meanwhile. Nothing is appended to a closed file."""
        if self.files.was_released:
            self.files.was_released = False
            self.distrust()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Calls ``SegmentFiles.held``."""
        with self.files.held():
            self._settle()
            yield

    def distrust(self) -> None:
        """Lets the next read of any bytes check their CRCs again."""
        self.trust.lose(self.size)

    def read_bytes(self, position: int, length: int) -> bytes:
        """Returns bytes of the file without checking CRCs. Raises OSError."""
        return self.file.read(length, position)

    @property
    def max_timestamp(self) -> int:
        """The greatest timestamp of the records, -1 if none has one."""
        if self._max_timestamp == UNKNOWN_TIMESTAMP:
            self.read_end()
        return self._max_timestamp

    @property
    def knows_max_timestamp(self) -> bool:
        """True if ``max_timestamp`` is known without reading the disk."""
        return self._max_timestamp != UNKNOWN_TIMESTAMP

    def resume(self, max_timestamp: int, max_timestamp_offset: int) -> None:
        """Takes over the values with which the segment was closed."""
        self._max_timestamp = max_timestamp
        self._max_timestamp_offset = max_timestamp_offset

    @property
    def max_timestamp_offset(self) -> int:
        """The last offset of the batch with the greatest timestamp."""
        if self._max_timestamp == UNKNOWN_TIMESTAMP:
            self.read_end()
        return self._max_timestamp_offset

    @property
    def first_timestamp(self) -> int:
        """The greatest timestamp in the first batch, by which the segment rolls; -1 if there is no batch."""
        if self._first_timestamp == UNKNOWN_TIMESTAMP:
            first = next(self.batches(), None)
            self._first_timestamp = first.batch.max_timestamp if first else -1
        return self._first_timestamp

    @property
    def largest_timestamp(self) -> int:
        """The time that retention uses, in ms: the greatest timestamp, or the file's time if there is none."""
        timestamp = self.max_timestamp
        return timestamp if timestamp >= 0 else self.modified_ms

    @property
    def modified_ms(self) -> int:
        """The time of the last append, in ms; for an unwritten segment, the time when it was created."""
        return self.files.modified_ms if self.files.is_made else self.created_ms

    # Appending

    def append(self, data: Bytes, last_offset: int, max_timestamp: int) -> None:
        """Appends a batch, and updates the indexes. Raises OSError: then call ``cut_failed_write``."""
        files = self.files
        file = files.data
        if file is None:
            file = self._open()
        is_indexed = self._bytes_since_index > self.index_interval_bytes
        if is_indexed or self._max_timestamp == UNKNOWN_TIMESTAMP:
            self._read_what_appends_need()
        position = self.size
        length = len(data)
        file.write(data, position)
        self.size = position + length
        files.recently_used = True
        if max_timestamp > self._max_timestamp:
            self._raise_max_timestamp(max_timestamp, last_offset)
        if position == 0:
            self._first_timestamp = max_timestamp
        if is_indexed:
            self._index(last_offset, position)
        self._bytes_since_index += length

    def append_all(self, data: Bytes, batches: list[Batch]) -> None:
        """Appends several batches, which follow each other in ``data``. Raises OSError, as ``append``."""
        file, position = self.file, self.size
        self._read_what_appends_need()
        file.write(data, position)
        self.size = position + len(data)
        for batch in batches:
            self.note(position, batch)
            position += batch.size

    def _read_what_appends_need(self) -> None:
        """Reads what an append needs before anything is written, so that the append needs no file descriptor. Raises
        OSError.
        """
        self.offset_index.hold()
        self.time_index.hold()
        if self._max_timestamp == UNKNOWN_TIMESTAMP:
            self.read_end()

    def cut_failed_write(self) -> None:
        """Removes the bytes that a failed append may have written behind the last whole batch, if the disk allows it.
        """
        with contextlib.suppress(OSError):
            (self.files.data or self._open()).truncate(self.size)

    def note(self, position: int, batch: Batch) -> None:
        """Adds a batch of the file to the indexes."""
        if batch.max_timestamp > self._max_timestamp:
            self._raise_max_timestamp(batch.max_timestamp, batch.last_offset)
        if position == 0:
            self._first_timestamp = batch.max_timestamp
        if self._bytes_since_index > self.index_interval_bytes:
            self._index(batch.last_offset, position)
        self._bytes_since_index += batch.size

    def start_indexes(self) -> None:
        """Empties the offset and time index, to be filled by ``note``."""
        self.offset_index.start_empty()
        self.time_index.start_empty()
        self._max_timestamp = -1
        self._max_timestamp_offset = self.base_offset
        self._bytes_since_index = 0

    def rebuild_indexes(self) -> None:
        """Rebuilds the offset and time index from the log. Raises MalformedBatch."""
        self.start_indexes()
        for position, batch in self.batches():
            self.check_reach(position, batch)
            self.note(position, batch)
        self.seal()

    def check_reach(self, position: int, batch: Batch) -> None:
        """Raises MalformedBatch for an offset that this segment's indexes cannot hold.

        The CRC does not cover the offset, so it may be damaged.
        """
        if batch.last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
            reason = f"offset {batch.base_offset} is too far from {self.base_offset}"
            raise MalformedBatch(position, reason, size=batch.size)

    def seal(self) -> None:
        """Completes the indexes, when no further appends are expected. They may still follow."""
        if self._max_timestamp >= 0:
            self.time_index.add(self._max_timestamp, self._max_timestamp_offset)
        self.files.save_indexes()

    # Reading

    def remember(self, next_offset: int, position: int) -> None:
        """Remembers where a read ended, because the next one probably begins there."""
        starts = self._starts
        if starts is None or len(starts) >= MAX_STARTS:
            starts = self._starts = {}
        starts[next_offset] = position

    def position_of(self, offset: int) -> int:
        """Returns where the first batch begins whose last offset is at least ``offset``, NO_BATCH if there is none."""
        starts = self._starts
        if starts is not None and offset in starts:
            position = starts[offset]
            return position if position < self.size else NO_BATCH
        if offset <= self.base_offset and self.size and self.trust.covers(0, 1):
            return 0  # the first batch reaches the offset; unless it is trusted, it might be damaged
        located = self._locate(offset)
        return located.position if located else NO_BATCH

    def batch_reaching(self, offset: int) -> Located | None:
        """Returns the first batch whose last offset is at least ``offset``. Raises MalformedBatch."""
        return self._locate(offset)

    def batches(self, position: int = 0) -> Iterator[Located]:
        """Yields the batches from ``position`` on. Raises MalformedBatch."""
        return walk(self.file, position, self.size)

    def verified_batches(self, position: int, trust_before: int) -> Iterator[Located]:
        """Yields the batches from ``position`` on, with CRCs checked from offset ``trust_before`` on."""
        return walk_verified(self.file, position, self.size, trust_before)

    def batches_since(self, timestamp: int, offset: int) -> Iterator[Located]:
        """Yields the batches with a record as new as ``timestamp`` and one at or beyond ``offset``.

        Raises MalformedBatch.
        """
        start = self.position_of(offset) if offset > self.base_offset else 0
        if start == NO_BATCH:
            return
        for located in self.batches(max(start, self._start_of_time(timestamp))):
            if located.batch.max_timestamp >= timestamp:
                yield located

    def _start_of_time(self, timestamp: int) -> int:
        """Returns a position at or before the first batch with a record as new as ``timestamp``."""
        entry = self.time_index.lookup(timestamp)
        located = self._dated(entry) if entry is not None else None
        if entry is not None and located is None:
            self._rebuild_once()
        return located.position if located is not None else 0

    def _dated(self, entry: TimestampEntry) -> Located | None:
        """Returns the batch of an entry of the time index, None if the entry is wrong."""
        located = self._locate(entry.offset)
        fits = located is not None and located.batch.max_timestamp == entry.timestamp
        return located if fits else None

    def read_end(self) -> int:
        """Finds the greatest timestamp and returns the last offset, ``base_offset - 1`` if empty.

        The indexes tell both up to their last entries; the batches behind those are scanned. Raises
        MalformedBatch.
        """
        if not self.files.is_made:
            return self.base_offset - 1
        newest = self.time_index.last()
        if newest.timestamp >= 0 and self._dated(newest) is None:
            self._rebuild_once()
        start = self._last_indexed()
        newest = self.time_index.last()
        last = self.base_offset - 1
        for _, batch in walk(self.files.borrow(), start, self.size):
            last = batch.last_offset
            if batch.max_timestamp > newest.timestamp:
                newest = TimestampEntry(batch.max_timestamp, last)
        self._max_timestamp, self._max_timestamp_offset = newest
        return last

    def _last_indexed(self) -> int:
        """Returns the position of the last batch with a correct entry in the offset index, 0 if there is none."""
        return self.start_upto(MAX_POSITION)

    def start_upto(self, position: int) -> int:
        """Returns where the last batch with a correct index entry begins, at or before ``position``; 0 without one."""
        entry = self.offset_index.last_upto(position)
        if entry is not None and not self.agrees(entry):
            self._rebuild_once()
            entry = self.offset_index.last_upto(position)
        return entry.position if entry is not None and self.agrees(entry) else 0

    # Cutting and closing

    def truncate(self, position: int) -> None:
        """Truncates the log and its indexes at ``position``, where a batch begins or the log ends."""
        located = next(self.batches(position), None) if position < self.size else None
        self.file.truncate(position)
        self.size = position
        self._starts = None
        self.trust.cut(position)
        self._max_timestamp = UNKNOWN_TIMESTAMP
        if located is not None:
            self.offset_index.truncate_to_position(position)
            self.time_index.truncate_to_offset(located.batch.base_offset)
            self.txn_index.truncate_to_offset(located.batch.base_offset)

    def complete(self) -> None:
        """Completes the index files. Raises OSError."""
        if self._bytes_since_index and self.knows_max_timestamp:
            self.seal()
        self.txn_index.save()

    def _index(self, last_offset: int, position: int) -> None:
        self.offset_index.add(last_offset, position)
        self.time_index.add(self._max_timestamp, self._max_timestamp_offset)
        self._bytes_since_index = 0
        if self.is_full_with(len(self.offset_index.entries), len(self.time_index.entries)):
            self.index_is_full = True

    def is_full_with(self, offset_bytes: int, time_bytes: int) -> bool:
        """Returns True if indexes of these lengths cannot take another entry. The time index reserves its last one."""
        room = self.max_index_bytes
        offset_entry, time_entry = self.offset_index.ENTRY_SIZE, self.time_index.ENTRY_SIZE
        return offset_bytes + offset_entry > room or time_bytes + 2 * time_entry > room

    def _raise_max_timestamp(self, timestamp: int, offset: int) -> None:
        if self._max_timestamp == UNKNOWN_TIMESTAMP:
            self.read_end()
        if timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
            self._max_timestamp_offset = offset

    def _locate(self, offset: int) -> Located | None:
        entry = self.offset_index.lookup(offset)
        if entry is not None and not self.agrees(entry):
            self._rebuild_once()
            entry = self.offset_index.lookup(offset)
        start = entry.position if entry else 0
        return first_reaching(self.files.borrow(), start, self.size, offset)

    def agrees(self, entry: OffsetPosition) -> bool:
        """Returns True if the batch of an index entry is really at its position."""
        try:
            located = next(walk(self.files.borrow(), entry.position, self.size), None)
        except MalformedBatch:
            return False
        return located is not None and located.batch.last_offset == entry.offset

    def _rebuild_once(self) -> None:
        """Rebuilds the indexes because one of them was found wrong; does so only once.

        If the log's framing is broken, the old indexes stay, because they lead past the damage.
        """
        if self._was_rebuilt:
            return
        self._was_rebuilt = True
        logger.warning("the indexes of %s do not match the log and are rebuilt", self.path)
        with contextlib.suppress(MalformedBatch):
            for _ in self.batches():
                pass
            self.rebuild_indexes()

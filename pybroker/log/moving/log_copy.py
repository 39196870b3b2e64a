"""Copies a log to another log dir while the log is in use.

``update`` runs on a pool thread. Each call copies the bytes that are new, and syncs them. ``complete`` runs on the
loop's thread, where nothing is appended meanwhile. It copies the remaining bytes, which must be few, and syncs nothing.

A segment is *done* when it was copied after it was sealed. It does not change any more unless the log is
truncated, and then the copy starts again. Indexes can be rebuilt, so they are not synced, except for the transaction
index. Quarantined data (``.quarantined``) and files that do not belong to the log are copied as well, because the old
folder is removed.

An error of the target raises OSError. An error of the source takes its dir offline, and raises KafkaStorageError.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import TypeVar

from pybroker.log.dirs.folder_states import Start, file_state
from pybroker.log.files import leader_epochs, partition_metadata
from pybroker.log.files.storage import DataFile, OutOfDescriptors, Storage
from pybroker.log.log import Log
from pybroker.log.producers import producer_snapshot
from pybroker.log.segment.segment import Segment
from pybroker.log.segment.segment_files import SUFFIX
from pyclient.protocol import errors

CHUNK_BYTES = 1 << 20
SYNC_BYTES = 8 << 20
"""How many bytes are copied between syncs. With more, syncs of other files on the disk would wait too long."""
REST_BYTES = 4 << 20
REST_SEGMENTS = 16
"""How many bytes and segments ``complete`` copies at most, because it runs on the loop's thread."""

T = TypeVar("T")

logger = logging.getLogger(__name__)


class Cancelled(Exception):
    """Raised if the copy is no longer needed."""


class _Cut(Exception):
    """Raised if the log was truncated while it was read."""


class LogCopy:
    """Copies ``log`` into ``folder``. An update ends when ``is_cancelled()`` returns True."""

    def __init__(self, log: Log, storage: Storage, folder: str, is_cancelled: Callable[[], bool]) -> None:
        self._log = log
        self._storage = storage
        self._folder = folder
        self._is_cancelled = is_cancelled
        self._truncations = log.files.durability.truncations
        self._copied: dict[int, int] = {}
        """How many bytes of each segment are copied, by base offset."""
        self._done: set[int] = set()
        self._others: set[str] = set()
        self.synced_end = 0
        """The offset below which all records are on the target's disk."""

    @property
    def copied_bytes(self) -> int:
        """How many bytes of segments are in the target dir."""
        return sum(list(self._copied.values()))

    def update(self) -> None:
        """Copies everything that is new since the last update, and syncs it; blocks. Raises Cancelled.

        If the log is truncated meanwhile, it ends early, and the next update starts again.
        """
        with contextlib.suppress(_Cut):
            self._update()

    def _update(self) -> None:
        log = self._log
        truncations, end = log.files.durability.truncations, log.log_end_offset
        if truncations != self._truncations:
            self._begin_anew(truncations)
        self._storage.make_folder(self._folder)
        *sealed, active = log.segments.snapshot()
        self._remove_gone({segment.base_offset for segment in (*sealed, active)})
        for segment in sealed:
            if segment.base_offset not in self._done:
                self._copy_sealed(segment)
        self._copy_log(active, sync=True)
        self._copy_txn_index(active, sync=True)
        self._copy_others(active.base_offset)
        self._storage.sync_folder(self._folder)
        if truncations == log.files.durability.truncations:
            self.synced_end = end

    def complete(self) -> bool:
        """Copies the remaining bytes, on the loop's thread. If they are too many, changes nothing; returns False."""
        log = self._log
        segments = log.segments.snapshot()
        bases = {segment.base_offset for segment in segments}
        rest = [segment for segment in segments if segment.base_offset not in self._done]
        missing = sum(segment.size - self._copied.get(segment.base_offset, 0) for segment in rest)
        count = len(rest) + len(self._copied.keys() - bases)
        if log.files.durability.truncations != self._truncations or missing > REST_BYTES or count > REST_SEGMENTS:
            return False
        self._remove_gone(bases)
        for segment in rest:
            self._of_source(segment.files.save_indexes)
            self._copy_log(segment, sync=False)
            self._copy_indexes(segment, sync=False)
            segment.txn_index.doubt()
            self._copy_small(producer_snapshot.file_name(segment.base_offset), sync=False)
        return True

    def _begin_anew(self, truncations: int) -> None:
        """Starts the copy again, because the log was truncated and the copied part may have changed."""
        self._storage.remove_folder(self._folder)
        self._copied.clear()
        self._done.clear()
        self._others.clear()
        self.synced_end = 0
        self._truncations = truncations

    def _remove_gone(self, bases: set[int]) -> None:
        """Removes the copies of segments that retention has removed."""
        for base in self._copied.keys() - bases:
            for suffix in (SUFFIX, ".index", ".timeindex", ".txnindex"):
                self._storage.unlink(f"{self._folder}/{base:020d}{suffix}")
            del self._copied[base]
            self._done.discard(base)

    def _copy_sealed(self, segment: Segment) -> None:
        if self._copy_log(segment, sync=True):
            self._copy_indexes(segment, sync=True)
            self._date(segment)
            self._done.add(segment.base_offset)

    def _copy_log(self, segment: Segment, *, sync: bool) -> bool:
        """Copies the new part of a segment's ``.log``. Returns False if the segment was removed meanwhile."""
        source = self._opened(segment.path)
        if source is None:
            return False
        target = self._storage.open(self._path(segment.path), create=True)
        done = synced = self._copied.get(segment.base_offset, 0)
        while done < segment.size:
            data = self._read(source, done, segment.size)
            target.write(data, done)
            done += len(data)
            self._copied[segment.base_offset] = done
            if sync and done - synced >= SYNC_BYTES:
                target.sync()
                synced = done
        self._copied[segment.base_offset] = done
        if sync:
            target.sync()
        return True

    def _copy_indexes(self, segment: Segment, *, sync: bool) -> None:
        for index in (segment.offset_index, segment.time_index):
            self._copy_small(index.path.rpartition("/")[2], sync=False)
        self._copy_txn_index(segment, sync=sync)

    def _copy_txn_index(self, segment: Segment, *, sync: bool) -> None:
        """Copies a transaction index durably, because a start takes a missing one for one without entries."""
        self._of_source(segment.txn_index.save)
        self._copy_small(segment.txn_index.path.rpartition("/")[2], sync=sync)

    def _date(self, segment: Segment) -> None:
        """Gives the copy the original's file time, which retention uses if records have no timestamps."""
        modified_ms = self._of_source(lambda: self._log.log_dir.storage.modified_ms(segment.path))
        if modified_ms is not None:
            self._storage.set_modified_ms(self._path(segment.path), modified_ms)

    def _copy_others(self, active_base: int) -> None:
        """Copies files other than segments; but no snapshots beyond the active segment's base, as they may be
        incomplete.
        """
        names = self._of_source(lambda: self._log.log_dir.storage.files(self._log.folder)) or {}
        for name in sorted(names.keys() - self._others):
            state = file_state(name)
            if state is None:
                self._copy_foreign(name)
                self._others.add(name)
            elif state.start is Start.KEEPS:
                self._copy_whole(name, self._opened(f"{self._log.folder}/{name}"))
                self._others.add(name)
            elif name.endswith(producer_snapshot.SUFFIX) and int(name.partition(".")[0]) <= active_base:
                self._copy_small(name, sync=False)
                self._others.add(name)
        self._copy_small(partition_metadata.FILE_NAME, sync=True)
        self._write(leader_epochs.FILE_NAME, self._log.leader_epochs.encode(), sync=True)

    def _copy_foreign(self, name: str) -> None:
        """Copies a file of other software. If the file cannot be opened, the log moves without it, and no dir fails."""
        path = f"{self._log.folder}/{name}"
        try:
            source = self._log.log_dir.storage.open(path)
        except OutOfDescriptors:
            raise
        except OSError as error:
            logger.warning("%s does not belong to the log, and is not moved with it: %s", path, error)
            return
        self._copy_whole(name, source)

    def _copy_whole(self, name: str, source: DataFile | None) -> None:
        if source is None:
            return
        target = self._storage.open(self._path(name), create=True)
        done, size = 0, source.size()
        while done < size:
            data = self._read(source, done, size)
            target.write(data, done)
            done += len(data)
        target.sync()

    def _copy_small(self, name: str, *, sync: bool) -> None:
        data = self._of_source(lambda: self._log.log_dir.storage.read(f"{self._log.folder}/{name}"))
        if data is not None:
            self._write(name, data, sync=sync)

    def _write(self, name: str, data: bytes, *, sync: bool) -> None:
        self._storage.write(self._path(name), data)
        if sync:
            self._storage.open(self._path(name)).sync()

    def _opened(self, path: str) -> DataFile | None:
        return self._of_source(lambda: self._log.log_dir.storage.open(path))

    def _read(self, source: DataFile, position: int, end: int) -> bytes:
        if self._is_cancelled():
            raise Cancelled
        data = self._of_source(lambda: source.read(min(CHUNK_BYTES, end - position), position))
        if not data:
            if self._log.files.durability.truncations != self._truncations:
                raise _Cut
            raise errors.KafkaStorageError(f"{source.path} is shorter than {end} bytes")
        return data

    def _of_source(self, work: Callable[[], T]) -> T | None:
        """Runs ``work``, which reads the source: an OSError fails the source's dir. Returns None for a missing file."""
        try:
            return work()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._log.log_dir.fail(error, f"copying from {self._log.folder}") from error

    def _path(self, path: str) -> str:
        return f"{self._folder}/{path.rpartition('/')[2]}"

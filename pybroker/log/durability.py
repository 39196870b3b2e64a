"""Tracks how much of a log is on the disk: its recovery point, and the syncs that raise it.

Everything below ``recovery_point`` survives a power loss. So a sync writes, in this order, the data, the epoch file,
and the names of the files and the folder; only then it raises the recovery point. A truncation first lowers the
recovery point durably, because later appends may be below the old one without being synced.

Without flush settings an append is only in the page cache: it survives a kill of the process, but not a power loss.
A log is synced for flush.messages and flush.ms, when a segment is sealed, and by group commit for ``flush.acks``. After
a crash, ``recovery`` checks what lies beyond the recovery point.

Thread-safety: ``sync`` and ``save_files`` may be called from any thread, at any time. They notice if the log was
truncated while they ran. Code that renames or removes the folder holds ``undisturbed``.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from pybroker.log.dirs.log_dir import LogDir
from pybroker.log.files import leader_epochs, partition_metadata
from pybroker.log.files.leader_epochs import LeaderEpochs
from pybroker.log.log_start import LogStart
from pybroker.log.segment.segment import Segment
from pybroker.log.segment.segments import Segments
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors


class Files(Protocol):
    """The part of the log's files that this module uses."""

    log_dir: LogDir
    folder: str
    topic_partition: TopicPartition
    segments: Segments
    leader_epochs: LeaderEpochs


class Durability:
    """The recovery point of one log."""

    __slots__ = (
        "_files",
        "_lock",
        "_lowered",
        "_point",
        "deleted",
        "doubted",
        "is_cut",
        "names_synced",
        "recovery_point",
        "start",
        "topic_id_synced",
        "truncations",
    )

    def __init__(self, files: Files, recovery_point: int) -> None:
        self._files = files
        self._lock = threading.RLock()
        self._point = threading.Lock()
        """Guards ``recovery_point`` and ``truncations``. Held only for a moment; ``_lock`` may be held for a sync."""
        self.recovery_point = recovery_point
        self.start = LogStart(files, files.segments[0].base_offset)
        self._lowered = False
        """True if the checkpoint file may have a recovery point from before a truncation."""
        self.topic_id_synced = True
        """False if ``partition.metadata`` was written but not synced."""
        self.names_synced = False
        """False if the folder has files whose names are not synced."""
        self.truncations = 0
        """How often the log has been truncated."""
        self.is_cut = False
        """True if the log has been truncated since the last sync."""
        self.doubted: int | None = None
        """After a move: the offset from which the copied files are not synced yet; None if they are synced.

        Until then, the old folder still has the records up to ``recovery_point``.
        """
        self.deleted = False
        """True if the log's files are deleted, or are about to be."""

    @contextlib.contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Within ``with``, no other thread writes or syncs the files. First waits for a thread that does."""
        with self._lock:
            yield

    @contextlib.contextmanager
    def undisturbed_at_once(self) -> Iterator[bool]:
        """Like ``undisturbed``, but does not wait: if another thread uses the files, yields False without the lock."""
        free = self._lock.acquire(blocking=False)
        try:
            yield free
        finally:
            if free:
                self._lock.release()

    def sync(self, find_end: Callable[[], int]) -> int:
        """Syncs everything below the offset that ``find_end`` returns; blocks. Returns the recovery point.

        ``find_end`` is called after the wait for another sync, and after the number of truncations was read. An end
        that was read before a truncation would wrongly cover records appended after it. Raises OSError; the caller may
        retry only after OutOfDescriptors. Raises KafkaStorageError if the log was deleted or its dir has failed.
        """
        with self._lock:
            if self.deleted:
                raise errors.KafkaStorageError(f"{self._files} has been deleted")
            truncations = self.truncations
            end = find_end()
            is_of_cut = self.is_cut and end >= self.recovery_point
            if end > self.recovery_point or self.doubted is not None or is_of_cut:
                start = self.recovery_point if self.doubted is None else min(self.doubted, self.recovery_point)
                behind = end + 1 if is_of_cut else end  # also syncs a segment that the truncation has left empty
                self._files.segments.sync(start, behind, lambda: self.deleted)
                if self.deleted:
                    raise errors.KafkaStorageError(f"{self._files} has been deleted")
                self._sync_names()
                with self._point:
                    if truncations == self.truncations:
                        self.recovery_point = end
                        self.doubted = None
                        self.is_cut = self.is_cut and not is_of_cut
            return self.recovery_point

    def lower(self, offset: int) -> None:
        """Lowers the recovery point to ``offset``, durably, for a truncation. Raises KafkaStorageError.

        Call it before and after the truncation, because a sync that begins in between still sees the old end.
        """
        with self._point:
            self.truncations += 1
            self.is_cut = True
            if offset < self.recovery_point:
                self.recovery_point = offset
                self._lowered = True
            if self.doubted is not None:
                self.doubted = min(self.doubted, offset)
        self.start.cut_to(offset)
        if self._lowered:
            self._files.log_dir.checkpoint_recovery_points()
            self._lowered = False

    def names_gone_below(self, offset: int) -> None:
        """Notes that the segments below ``offset`` were renamed for deletion, and that the folder is not synced."""
        self.names_synced = False
        self.start.names_gone_below(offset)

    def save_files(self, segments: Iterable[Segment] = ()) -> None:
        """Writes ``leader-epoch-checkpoint`` and the indexes of ``segments`` if they have changed. Raises OSError.

        Does nothing if the log was deleted.
        """
        with self._lock:
            if not self.deleted:
                for segment in segments:
                    segment.files.save_indexes()
                self._save_epochs()

    def _save_epochs(self) -> None:
        """Writes ``leader-epoch-checkpoint`` if it has changed. Raises OSError.

        The first write is not atomic: if a crash tears or loses the file, recovery rebuilds it from the log.
        """
        files = self._files
        if files.leader_epochs.dirty:
            files.leader_epochs.dirty = False
            path, storage = f"{files.folder}/{leader_epochs.FILE_NAME}", files.log_dir.storage
            try:
                if storage.exists(path):
                    storage.replace(path, files.leader_epochs.encode())
                else:
                    storage.write(path, files.leader_epochs.encode())
                    self.names_synced = False
            except OSError:
                files.leader_epochs.dirty = True
                raise

    def _sync_names(self) -> None:
        files = self._files
        self._sync_topic_id()
        mark = self.start.mark()
        self._save_epochs()
        if not self.names_synced:
            # Set before the sync, because a file that is created meanwhile needs another sync; so does the first file.
            self.names_synced = files.segments[-1].files.is_made
            try:
                files.log_dir.storage.sync_folder(files.folder)
            except OSError:
                self.names_synced = False
                raise
        files.log_dir.sync_names()
        self.start.synced_as_of(mark)

    def _sync_topic_id(self) -> None:
        if not self.topic_id_synced:
            self.topic_id_synced = True
            try:
                self._files.log_dir.storage.open(f"{self._files.folder}/{partition_metadata.FILE_NAME}").sync()
            except OSError:
                self.topic_id_synced = False
                raise

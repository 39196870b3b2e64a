"""How much of a log is on the disk: the recovery point, and the syncs that raise it.

``recovery_point`` promises: after a loss of power everything below it is there. A sync therefore writes, in this order,
the data, the epoch file, the names of the files and of the folder, and only then raises the recovery point. A
truncation lowers it, durably and first: what is appended after the truncation lies below the old recovery point and has
not been synced.

Without flush settings an append is in the page cache: it survives the end of the process, not of the machine. A log is
synced for flush.messages, flush.ms, when a segment is sealed, and by group commit for ``flush.acks``. What a crash
leaves beyond the recovery point is checked by ``recovery``.

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
    """The part of the log's files that is used here."""

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
        """Guards ``recovery_point`` and ``truncations``, for a moment; ``_lock`` may be held for a whole sync."""
        self.recovery_point = recovery_point
        self.start = LogStart(files, files.segments[0].base_offset)
        self._lowered = False
        """True where the checkpoint file may have a recovery point from before a truncation."""
        self.topic_id_synced = True
        """False where ``partition.metadata`` was written and may be lost."""
        self.names_synced = False
        """False where the folder has files whose names may be lost."""
        self.truncations = 0
        """How often the log has been truncated."""
        self.is_cut = False
        """True where it has been truncated since the last sync."""
        self.doubted: int | None = None
        """From here on the files are copies that were not synced; the folder that they were made of has what is below
        ``recovery_point``. None: no doubt.
        """
        self.deleted = False
        """True where the log's files are gone, or are about to go."""

    @contextlib.contextmanager
    def undisturbed(self) -> Iterator[None]:
        """No other thread writes or syncs the files meanwhile; waits for one that does."""
        with self._lock:
            yield

    @contextlib.contextmanager
    def undisturbed_at_once(self) -> Iterator[bool]:
        """As ``undisturbed``, but gives False, and no promise, where another thread is at the files."""
        free = self._lock.acquire(blocking=False)
        try:
            yield free
        finally:
            if free:
                self._lock.release()

    def sync(self, find_end: Callable[[], int]) -> int:
        """Syncs everything below the offset that ``find_end`` gives; blocks. Returns the recovery point.

        The end is read here, after the wait for another sync and after the number of truncations. An end from before a
        truncation would vouch for what is appended after it. Raises OSError, to be retried only where there was no
        descriptor: what was not synced is known as such then. KafkaStorageError where the log has been deleted, or its
        dir has failed.
        """
        with self._lock:
            if self.deleted:
                raise errors.KafkaStorageError(f"{self._files} has been deleted")
            truncations = self.truncations
            end = find_end()
            is_of_cut = self.is_cut and end >= self.recovery_point
            if end > self.recovery_point or self.doubted is not None or is_of_cut:
                start = self.recovery_point if self.doubted is None else min(self.doubted, self.recovery_point)
                behind = end + 1 if is_of_cut else end  # also a segment that the cut has left empty
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
        """The log is about to be truncated to ``offset``, or has just been. Call it before and after, because a sync
        that begins in between still finds what is cut off. Raises KafkaStorageError.
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
        """The segments below ``offset`` have lost their names, and the folder has not been synced since."""
        self.names_synced = False
        self.start.names_gone_below(offset)

    def save_files(self, segments: Iterable[Segment] = ()) -> None:
        """Writes ``leader-epoch-checkpoint`` and the indexes of ``segments`` where they lag.

        A deleted log is left alone. Raises OSError.
        """
        with self._lock:
            if not self.deleted:
                for segment in segments:
                    segment.files.save_indexes()
                self._save_epochs()

    def _save_epochs(self) -> None:
        """Writes ``leader-epoch-checkpoint`` if it lags. Raises OSError.

        The first one has no other to replace. A crash may tear it, or lose it; then it is made again from the log.
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
            # Before the sync: a file that is made meanwhile needs another one, also that of a log without records.
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

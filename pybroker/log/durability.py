"""How much of a log is on the disk: the recovery point, and the syncs that raise it.

``recovery_point`` promises: after a loss of power everything below it is there. A sync therefore
writes, in this order, the data, the epoch file, the names of the files and of the folder, and only
then raises the recovery point. A truncation lowers it, durably and first: what is appended after
the cut lies below the old recovery point and has not been synced.

Thread-safety: ``sync`` and ``save_files`` may be called from any thread, at any time. They notice
when the log was cut while they ran; whoever renames or removes the folder holds ``undisturbed``.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from pybroker.log import leader_epochs, partition_metadata
from pyclient.protocol import errors

if TYPE_CHECKING:
    from pybroker.log.log_files import LogFiles
    from pybroker.log.segment import Segment


class Durability:
    """The recovery point of one log."""

    __slots__ = (
        "_lock",
        "_log",
        "_lowered",
        "_point",
        "deleted",
        "doubted",
        "names_synced",
        "recovery_point",
        "topic_id_synced",
        "truncations",
    )

    def __init__(self, log: LogFiles, recovery_point: int) -> None:
        self._log = log
        self._lock = threading.RLock()
        self._point = threading.Lock()
        """Guards ``recovery_point`` and ``truncations``, for a moment; ``_lock`` may be held for a whole sync."""
        self.recovery_point = recovery_point
        self._lowered = False
        """True where the checkpoint file may have a recovery point from before a cut."""
        self.topic_id_synced = True
        """False where ``partition.metadata`` was written and may be lost."""
        self.names_synced = False
        """False where the folder has files whose names may be lost."""
        self.truncations = 0
        """How often the log has been cut."""
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

        The end is asked for here, behind the wait for another sync and behind the number of cuts: an end from before
        a cut would vouch for what is appended after it. Raises OSError, to be retried only where there was no
        descriptor: what was not synced is known as such then. KafkaStorageError where the log has been deleted, or its
        dir has failed.
        """
        with self._lock:
            if self.deleted:
                raise errors.KafkaStorageError(f"{self._log} has been deleted")
            truncations = self.truncations
            end = find_end()
            if end > self.recovery_point or self.doubted is not None:
                start = self.recovery_point if self.doubted is None else min(self.doubted, self.recovery_point)
                self._log.segments.sync(start, end, lambda: self.deleted)
                if self.deleted:
                    raise errors.KafkaStorageError(f"{self._log} has been deleted")
                self._sync_names()
                with self._point:
                    if truncations == self.truncations:
                        self.recovery_point = end
                        self.doubted = None
            return self.recovery_point

    def lower(self, offset: int) -> None:
        """The log is about to be cut to ``offset``, or has just been: to be called before and after, as a
        sync that begins in between still finds what is cut off. Raises KafkaStorageError.
        """
        with self._point:
            self.truncations += 1
            if offset < self.recovery_point:
                self.recovery_point = offset
                self._lowered = True
            if self.doubted is not None:
                self.doubted = min(self.doubted, offset)
        if self._lowered:
            self._log.log_dir.checkpoint_recovery_points()
            self._lowered = False

    def save_files(self, segments: Iterable[Segment] = ()) -> None:
        """Writes ``leader-epoch-checkpoint`` and the indexes of ``segments`` where they lag.

        A deleted log is left alone. Raises OSError.
        """
        with self._lock:
            if not self.deleted:
                for segment in segments:
                    segment.save_indexes()
                self._save_epochs()

    def _save_epochs(self) -> bool:
        """Writes ``leader-epoch-checkpoint`` if it lags, and syncs the folder with it.

        Raises OSError.
        """
        log = self._log
        lags = log.leader_epochs.dirty
        if lags:
            log.leader_epochs.dirty = False
            path = f"{log.folder}/{leader_epochs.FILE_NAME}"
            try:
                log.log_dir.storage.replace(path, log.leader_epochs.encode())
            except OSError:
                log.leader_epochs.dirty = True
                raise
        return lags

    def _sync_names(self) -> None:
        log = self._log
        self._sync_topic_id()
        needed = not self.names_synced
        if needed:
            self.names_synced = True  # before the sync: a file that is made meanwhile needs another
        try:
            if not self._save_epochs() and needed:
                log.log_dir.storage.sync_folder(log.folder)
        except OSError:
            if needed:
                self.names_synced = False
            raise
        log.log_dir.sync_names()

    def _sync_topic_id(self) -> None:
        if not self.topic_id_synced:
            self.topic_id_synced = True
            try:
                self._log.log_dir.storage.open(f"{self._log.folder}/{partition_metadata.FILE_NAME}").sync()
            except OSError:
                self.topic_id_synced = False
                raise
